// A builder that computes: ops run immediately, in double, in plain loops. Shape rules are only as
// strict as the tests need.
#pragma once

#include <plait/build.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/support/fake_host.hpp"

namespace plait::fake {

struct Tensor {
  std::vector<int64_t> dims;
  std::vector<double> v;
  uint32_t dtype = PLAIT_F32;
  Tensor() = default;
  Tensor(std::vector<int64_t> d, std::vector<double> values, uint32_t type = PLAIT_F32);
  size_t size() const { return v.size(); }
};

struct Parameter {
  plait_parameter declared;
  plait_value value;
};

class Builder {
  plait_builder base_{};  // first, so that a plait_builder* is a Builder*

 public:
  Builder();
  Builder(const Builder&) = delete;
  plait_builder* raw() { return &base_; }

  plait_value input(Tensor t) { return push(std::move(t)); }
  const Tensor& at(plait_value v) const { return values_.at(v - 1); }

  bool training = true;
  std::map<std::string, Tensor> named;          // results of named()
  std::map<std::string, Tensor> given;          // values of parameters by name; all others are 1
  std::map<std::string, Parameter> parameters;  // the declared parameters
  std::map<std::string, Tensor>
      states;  // results of state(); missing ones are created from their initial value
  std::map<std::string, Tensor> new_states;                // values passed to set_state()
  Tensor state_like;                                       // the shape of states
  std::map<std::string, std::vector<int64_t>> state_dims;  // of those of tensor_state()
  std::map<std::string, double> losses;                    // terms by name, each added up
  std::vector<double> uniform;                             // results of random_uniform, cyclic
  std::vector<std::string> ops;                            // names in order

  plait_value push(Tensor t) {
    values_.push_back(std::move(t));
    return static_cast<plait_value>(values_.size());
  }

 private:
  static Builder& self(plait_builder* b) { return *reinterpret_cast<Builder*>(b); }
  static const plait_build_table* table();
  void check_name(const std::string& op);

  std::vector<Tensor> values_;
};

// The attributes of one op.
class Attrs {
 public:
  Attrs(const plait_attr* attrs, uint32_t n) : attrs_(attrs), n_(n) {}
  bool flag(const char* name) const { return find(name) && find(name)->i; }
  int64_t integer(const char* name, int64_t fallback = 0) const {
    return find(name) ? find(name)->i : fallback;
  }
  double real(const char* name) const { return find(name) ? find(name)->f : 0; }
  std::string text(const char* name) const { return find(name) ? find(name)->text : ""; }
  std::vector<int64_t> ints(const char* name) const;

 private:
  const plait_attr* find(const std::string& name) const;
  const plait_attr* attrs_;
  uint32_t n_;
};

// Runs an op; false if it is unknown. `uniform` feeds random_uniform.
bool run(const std::string& op, const std::vector<const Tensor*>& in, const Attrs& attrs,
         const std::vector<double>& uniform, std::vector<Tensor>& out);

}  // namespace plait::fake

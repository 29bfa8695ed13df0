// Operands of a plain kernel: rows of any element type, read and written as doubles.
#pragma once

#include <span>
#include <vector>

#include "kit/op_attrs.hpp"
#include "plugins/support/elements.hpp"

namespace plait::support {

using namespace kit;  // shapes and attributes of ops

// Types of all operands of a desc, inputs then outputs.
inline std::vector<uint32_t> operand_types(const plait_op_desc& d) {
  std::vector<uint32_t> types;
  for (uint32_t i = 0; i < d.n_inputs; ++i) types.push_back(d.inputs[i].dtype);
  for (uint32_t i = 0; i < d.n_outputs; ++i) types.push_back(d.outputs[i].dtype);
  return types;
}

// The operands of one run.
class Operands {
 public:
  Operands(const std::vector<uint32_t>& types, void* const* data) : types_(types), data_(data) {}
  // Elements [first, first + row.size()) of operand i.
  void read(size_t i, int64_t first, std::span<double> row) const {
    read_elements(types_[i], data_[i], first, 1, static_cast<int64_t>(row.size()), row.data());
  }
  void write(size_t i, int64_t first, std::span<const double> row) const {
    write_elements(types_[i], data_[i], first, 1, static_cast<int64_t>(row.size()), row.data());
  }
  double get(size_t i, int64_t at) const { return read_element(types_[i], data_[i], at); }
  void set(size_t i, int64_t at, double v) const { write_element(types_[i], data_[i], at, v); }
  int64_t index(size_t i, int64_t at) const { return read_index(types_[i], data_[i], at); }

 private:
  const std::vector<uint32_t>& types_;
  void* const* data_;
};

// Cuts the workspace into rows of doubles.
class Scratch {
 public:
  explicit Scratch(void* workspace) : next_(static_cast<double*>(workspace)) {}
  std::span<double> row(int64_t n) {
    double* p = next_;
    next_ += n;
    return {p, static_cast<size_t>(n)};
  }
  static uint64_t bytes(int64_t doubles) { return static_cast<uint64_t>(doubles) * sizeof(double); }

 private:
  double* next_;
};

}  // namespace plait::support

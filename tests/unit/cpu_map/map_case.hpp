// Code shared by the tests of the CPU device's map: building expressions, running them, and
// references.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "plugins/devices/cpu/map/map.hpp"

namespace plait::cpu::testing {

// An expression under construction. Inputs are registers 0..n-1.
class Exprs {
 public:
  explicit Exprs(uint32_t n_inputs) : n_inputs_(n_inputs) {}

  uint32_t op(uint32_t op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0);
  uint32_t constant(double value);
  void output(uint32_t r) { outputs_.push_back(r); }
  uint32_t n_registers() const { return n_inputs_ + static_cast<uint32_t>(instrs_.size()); }
  // Borrows from this object.
  plait_map map() const;

 private:
  uint32_t n_inputs_;
  std::vector<plait_map_instr> instrs_;
  std::vector<uint32_t> outputs_;
};

// A tensor with its own memory, which starts `shift` bytes after a cache line and ends with a
// guard.
struct Tensor {
  MapTensor desc;
  std::vector<unsigned char> memory;
  size_t shift = 0;

  Tensor(uint32_t dtype, std::initializer_list<int64_t> dims, size_t shift = 0)
      : Tensor(dtype, std::vector<int64_t>(dims), shift) {}
  Tensor(uint32_t dtype, const std::vector<int64_t>& dims, size_t shift = 0);

  // The alignment depends on the address, so a copy places its elements anew.
  Tensor(const Tensor& other);
  Tensor(Tensor&&) = default;

  int64_t count() const;
  void* data() { return memory.data() + start(); }
  const void* data() const { return memory.data() + start(); }
  // Element i as double; set() stores the nearest value of the dtype.
  double get(int64_t i) const;
  void set(int64_t i, double value);
  void fill(const std::vector<double>& values);  // repeated as needed
  bool guard_intact() const;

 private:
  size_t start() const;
};

// The kernels of this machine that support `desc`; always includes "interpreter".
std::vector<std::string> kernels_for(const MapDesc& desc);

// Runs `kernel` (of make_map) on the tensors; checks that nothing outside the outputs was written.
void run_map(const Exprs& e, const std::string& kernel, std::vector<Tensor*> inputs,
             std::vector<Tensor*> outputs, int threads = 1);

// The result of one operation, in double, for f32 operands.
double reference_op(uint32_t op, double a, double b, double c);

// a and b differ by at most `rel` relative or `abs` absolute, or are both NaN, or are equal
// infinities.
bool close(double a, double b, double rel, double abs);

// Register values of the whole expression with every result rounded to f32; `inputs` are the
// register values 0..n-1.
std::vector<double> evaluate(const plait_map& map, const std::vector<double>& inputs);

// Index in an input of shape `in` of the element that corresponds to flat index i of `out`.
int64_t broadcast_index(const MapTensor& in, const MapTensor& out, int64_t i);

}  // namespace plait::cpu::testing

// What a graph of the emulated cuDNN computes: its operations one after the other, over whole
// tensors in host memory. Nothing in it knows attention, so a graph that is wrong computes
// something else.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "plugins/devices/cuda/attention/cudnn_types.hpp"

namespace emulated_dnn {

using namespace plait::cuda::dnn;

struct Tensor {
  int64_t id = 0, alignment = 1;
  Data type = Data::f32;
  std::array<int64_t, 4> dims{}, strides{};
  bool is_virtual = false, by_value = false;
  int64_t count() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

struct Operation {
  enum class Kind { matmul, reduction, pointwise };
  Kind kind{};
  Pointwise mode{};
  Reduction reduction{};
  Data precision = Data::f32;  // of a pointwise operation: what it computes in
  int64_t axis = -1;
  // Ids: of a product a and b; of others x, b (0: none) and t (0: none).
  int64_t x = 0, b = 0, t = 0, y = 0;
};

struct Program {
  std::map<int64_t, Tensor> tensors;  // by id
  std::vector<Operation> operations;
  // What is wrong, "" if nothing is: a tensor that is read before it is written, or written twice;
  // shapes and types that do not fit.
  std::string fault() const;
  // Ids of tensors with memory, constants included.
  std::vector<int64_t> operands() const;
};

// pointers: of the tensors with memory, by id.
void execute(const Program& program, const std::map<int64_t, void*>& pointers);

}  // namespace emulated_dnn

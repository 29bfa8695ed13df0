// Products of every type and layout, in double: a thread for each element of y.
#pragma once

#include <string>

#include "kit/ops/matmul.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/matmul_plain_args.hpp"
#include "plugins/devices/cuda/matmul/product_args.hpp"

namespace plait::cuda {

class PlainMatmul {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why);
  // Bytes that run() needs.
  static uint64_t workspace(const kit::Matmul& p);
  // It takes the attribute tf32, too, and rounds nothing: for a caller that has no other kernel.
  PlainMatmul(plait_device* device, const plait_op_desc& d);
  void run(plait_queue* queue, void* const* operands, void* workspace) const;

 private:
  kit::Matmul p_;
  Function product_, squares_;
  ProductArgs<MatmulPlainArgs> args_;
  uint32_t squares_at_;  // operand
  uint32_t squares_type_ = 0;
};

}  // namespace plait::cuda

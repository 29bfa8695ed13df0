#include "plugins/devices/cuda/matmul/plain.hpp"

#include "plugins/support/activation.hpp"

namespace plait::cuda {
namespace {

// kernels/activation.cuh knows them by number.
using Activation = support::Activation;
static_assert(static_cast<uint32_t>(Activation::none) == 0 &&
              static_cast<uint32_t>(Activation::relu) == 1 &&
              static_cast<uint32_t>(Activation::tanh) == 2 &&
              static_cast<uint32_t>(Activation::sigmoid) == 3 &&
              static_cast<uint32_t>(Activation::gelu) == 4 &&
              static_cast<uint32_t>(Activation::gelu_tanh) == 5 &&
              static_cast<uint32_t>(Activation::silu) == 6);

int64_t blocks_of(const kit::Matmul& p) {
  return blocks_for(p.batch * p.m * p.n, kMatmulPlainBlock);
}

const char* function_name(uint32_t dtype) {
  switch (dtype) {
    case PLAIT_F64:
      return "matmul_plain_f64";
    case PLAIT_BF16:
      return "matmul_plain_bf16";
    case PLAIT_F16:
      return "matmul_plain_f16";
    default:
      return "matmul_plain_f32";
  }
}

}  // namespace

bool PlainMatmul::select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
  choice.workspace = workspace(with_known_activation(kit::parse_matmul(d)));
  why = "a thread for each element, in double";
  return true;
}

uint64_t PlainMatmul::workspace(const kit::Matmul& p) {
  return p.squares ? static_cast<uint64_t>(blocks_of(p)) * sizeof(double) : 0;
}

PlainMatmul::PlainMatmul(plait_device* device, const plait_op_desc& d)
    : p_(kit::parse_matmul(d, kit::Tf32::kKnown)),
      product_(device, "matmul_plain", function_name(d.inputs[0].dtype)),
      squares_(device, "matmul_plain", "matmul_plain_squares"),
      args_(p_, d, 2),
      squares_at_(d.n_inputs + 1) {
  MatmulPlainArgs& args = args_.fixed;
  args.batch = p_.batch, args.a_batch = p_.stride_a, args.b_batch = p_.stride_b;
  args.a_row = p_.transpose_a ? 1 : p_.k, args.a_col = p_.transpose_a ? p_.m : 1;
  args.b_row = p_.transpose_b ? 1 : p_.n, args.b_col = p_.transpose_b ? p_.k : 1;
  if (p_.squares) squares_type_ = d.outputs[1].dtype;
}

void PlainMatmul::run(plait_queue* queue, void* const* operands, void* workspace) const {
  MatmulPlainArgs args = args_.of(operands);
  args.a = operands[0], args.b = operands[1];
  args.squares = p_.squares ? static_cast<double*>(workspace) : nullptr;
  const auto blocks = static_cast<unsigned>(blocks_of(p_));
  product_.launch(queue, {blocks}, kMatmulPlainBlock, args);
  if (p_.squares)
    squares_.launch(
        queue, {1}, kMatmulPlainBlock,
        MatmulSquaresArgs{args.squares, {operands[squares_at_], squares_type_, 0}, blocks});
}

}  // namespace plait::cuda

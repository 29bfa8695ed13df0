// y[.., m, n] = op(a)[.., m, k] * op(b)[.., k, n] (+ bias[n]). B leading dims, m rows, k inner, n
// columns.
#pragma once

#include "kit/op_attrs.hpp"

namespace plait::kit {

inline constexpr plait_option kMatmulTransposeA =
    bool_option("transpose_a", "false", "a lies transposed: (.., k, m)");
inline constexpr plait_option kMatmulTransposeB =
    bool_option("transpose_b", "false", "b lies transposed: (.., n, k)");
inline constexpr plait_option kMatmulBias =
    bool_option("bias", "false", "a third input (n) is added to each row");
inline constexpr plait_option kMatmulActivation =
    choice_option("activation", "\"none\"", "none|relu|tanh|sigmoid|gelu|gelu_tanh|silu",
                  "y is this function of the above");
inline constexpr plait_option kMatmulAccumulate = bool_option(
    "accumulate", "false",
    "a last input of y's shape is added; y is its memory. Excludes bias and activation");
inline constexpr plait_option kMatmulSquares =
    bool_option("squares", "false",
                "a second output, a scalar: the sum of the squares of y. Excludes the other three");
inline constexpr plait_option kMatmulOperands = choice_option(
    "operands", "\"any\"",
    "any|input_weight|gradient_weight|weight_gradient|input_gradient|gradient_input",
    "of a layer with a weight: what a and b are; a mark for later passes, which means "
    "nothing to kernels");
inline constexpr plait_option kMatmulWide = bool_option(
    "wide", "false",
    "operands of f32 stay f32 where a lower precision is asked for; nothing to kernels");
inline constexpr plait_option kMatmulTf32 =
    bool_option("tf32", "false", "a and b, of f32, are rounded to 10 bits of fraction when read");

inline constexpr plait_option kMatmulAttrs[] = {kMatmulTransposeA, kMatmulTransposeB, kMatmulBias,
                                                kMatmulWide};
// What rewrites fold in behind the product; no program is written with them.
inline constexpr plait_option kMatmulFolds[] = {kMatmulActivation, kMatmulAccumulate,
                                                kMatmulSquares,    kResultType,
                                                kMatmulOperands,   kMatmulTf32};

// What matmul shares with the products of other kinds of numbers.
inline constexpr plait_option kAnyMatmulAttrs[] = {kMatmulBias, kMatmulActivation,
                                                   kMatmulAccumulate};
struct AnyMatmul {
  int64_t m = 0, n = 0, k = 0;
  bool bias = false, accumulate = false;
  std::string activation;    // "none", "relu", ...
  std::vector<int64_t> out;  // dims of y
};
// Reads the attributes; and, once the extents are known, checks the bias, which is input `bias_at`,
// y of `rows` rows, and what is added to y.
void read_attrs(const AttrReader& attrs, AnyMatmul& p);
void need_bias_and_y(const plait_op_desc& d, const AnyMatmul& p, uint32_t bias_at, int64_t rows);
// The extents of a product with b (n, k), shared by all leading dims of a (.., k): m counts the
// rows of all.
void read_shared_b(const plait_shape& a, const plait_shape& b, AnyMatmul& p);

struct Matmul : AnyMatmul {
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0;  // elements between products; stride_b is 0 where b is shared
  bool transpose_a = false, transpose_b = false, squares = false, tf32 = false;
};
// Whether a kernel knows the attribute `tf32`. One that does not must refuse it.
enum class Tf32 { kRefused, kKnown };
// Products that share b are one tall product: its m counts the rows of all.
Matmul parse_matmul(const plait_op_desc& d, Tf32 tf32 = Tf32::kRefused);

}  // namespace plait::kit

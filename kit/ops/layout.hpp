// Ops that move elements without changing them: reshape (a view), transpose, slice, pad, concat.
#pragma once

#include "kit/op_attrs.hpp"

namespace plait::kit {

inline constexpr plait_option kReshapeAttrs[] = {
    ints_option("shape", nullptr, "of the result"),
};
inline constexpr plait_option kTransposeAttrs[] = {
    ints_option("perm", nullptr, "the axis of the input that each axis of the result is"),
};
inline constexpr plait_option kSliceAttrs[] = {
    int_option("axis", "0", "the axis that is cut"),
    int_option("start", "0", "first index"),
    int_option("stop", nullptr, "index behind the last one"),
};
inline constexpr plait_option kPadAttrs[] = {
    int_option("axis", "0", "the axis that grows"),
    int_option("before", "0", "zeros before the first index"),
    int_option("after", "0", "zeros behind the last one"),
};
inline constexpr plait_option kConcatAttrs[] = {
    int_option("axis", "0", "the axis along which the inputs follow each other"),
};

// slice, pad, concat: copies of whole blocks. Input i fills, in each of `outer` outer steps,
// `length` elements of y from `to`, read from `from`; `from_step` and `to_step` are the elements of
// one outer step.
struct BlockCopy {
  int64_t from = 0, from_step = 0, to = 0, length = 0;
};
struct Blocks {
  int64_t outer = 0, to_step = 0;
  bool zero = false;  // y has elements that no input fills
  std::vector<BlockCopy> copies;
  std::vector<int64_t> out = {};  // dims of the output
};
Blocks parse_slice(const plait_op_desc& d);
Blocks parse_pad(const plait_op_desc& d);
Blocks parse_concat(const plait_op_desc& d);

// y's dims, each with the stride in x that it walks; neighbours that x holds together are merged,
// extents of 1 dropped.
struct Transpose {
  std::vector<int64_t> extents, strides;
  std::vector<int64_t> out;  // dims of the output
};
Transpose parse_transpose(const plait_op_desc& d);

// Dims of the result.
std::vector<int64_t> parse_reshape(const plait_op_desc& d);

}  // namespace plait::kit

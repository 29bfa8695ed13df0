// Rows sorted into groups, and products of each group with a matrix of its own: experts. N tokens,
// k groups that each token is in, M = N·k rows, E groups, C channels, I inputs and O outputs of a
// product.
//
// Row numbers and offsets are data. Rows lie group by group, and within a group in the order of the
// tokens, so every sum over them has a fixed order; no row is left out.
#pragma once

#include <algorithm>

#include "kit/op_attrs.hpp"

namespace plait::kit {

inline constexpr plait_option kGroupRowsAttrs[] = {
    at_least(int_option("groups", nullptr, "E: groups that the index names"), 1)};
// Groups first, first + 1, .. of all: the groups whose matrices a rank has.
inline constexpr plait_option kFirstGroup = at_least(
    int_option("first", "0", "the group of the first matrix, where a rank has some of them"), 0);
inline constexpr plait_option kGroupedMatmulAttrs[] = {
    bool_option("transpose_b", "false", "the matrices lie transposed: (E, O, I)")};
inline constexpr plait_option kGroupedMatmulPart[] = {kFirstGroup, kResultType};
inline constexpr plait_option kGroupedGradPart[] = {
    kFirstGroup, at_least(int_option("groups", "0", "E of y; 0: all"), 0), kResultType};
inline constexpr plait_option kUngroupRewrites[] = {kResultType};

struct GroupRows {
  int64_t tokens = 0, each = 0, width = 0, groups = 0;  // N, k, C, E
  std::vector<int64_t> place;                           // dims of the place
};
// x (R.., C), index (R.., k) -> rows (M, C), place (R.., k), offsets (E+1). A row whose index is
// none of the groups lies behind the rows of all groups.
GroupRows parse_group_rows(const plait_op_desc& d);

struct UngroupRows {
  int64_t tokens = 0, each = 0, width = 0;
  bool weighted = false;
  std::vector<int64_t> out;  // dims of y, or of the rows' gradient
};
// rows (M, C) [, weights (R.., k)], place (R.., k) -> y (R.., C): the sum of a token's rows, in the
// order of its places. A place outside of the rows adds nothing.
UngroupRows parse_ungroup_rows(const plait_op_desc& d);
// dy (R.., C) [, rows (M, C), weights (R.., k)], place (R.., k) -> drows (M, C) [, dweights]. No
// two places are one row; a row that no place names becomes 0.
UngroupRows parse_ungroup_rows_grad(const plait_op_desc& d);

struct GroupedMatmul {
  int64_t rows = 0, inputs = 0, outputs = 0;  // M, I, O
  int64_t groups = 0, first = 0, total = 0;   // matrices, the group of the first, groups of all
  bool transpose_b = false;
  std::vector<int64_t> out;  // dims of y
};
// x (M, I), b (E, I, O) or (E, O, I), offsets (E+1) -> y (M, O). Rows in no group that has a matrix
// here become 0.
GroupedMatmul parse_grouped_matmul(const plait_op_desc& d);
// a (M, I), b (M, O), offsets (E+1) -> y (E, I, O): of each group aᵀ·b over its rows.
GroupedMatmul parse_grouped_matmul_grad(const plait_op_desc& d);

// The rows of a group, [begin, end), within those that there are, whatever the offsets say: a group
// begins where those before it end, at the greatest offset so far, so no row is in two.
struct RowRange {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};
// offset(i): offsets[i].
template <class F>
RowRange rows_of_group(const GroupedMatmul& g, int64_t matrix, const F& offset) {
  const int64_t group = g.first + matrix;
  if (group >= g.total) return {};
  RowRange r;
  for (int64_t i = 0; i <= group + 1; ++i) {
    r.begin = r.end;
    r.end = std::clamp<int64_t>(offset(i), r.end, g.rows);
  }
  return r;
}

}  // namespace plait::kit

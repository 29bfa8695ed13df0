// Reductions over chosen axes.
#pragma once

#include "kit/op_attrs.hpp"

namespace plait::kit {

inline constexpr plait_option kReduceAttrs[] = {
    choice_option("kind", "\"sum\"", "sum|max|sum_squares", "what each group of elements becomes"),
    ints_option("axes", nullptr, "sorted, different axes to reduce over"),
    bool_option("keep", "true", "reduced axes stay with extent 1"),
};

enum class ReduceKind { sum, max, sum_squares };
// The input's dims without extents of 1, neighbours that are all kept or all reduced merged
// into one.
struct Reduce {
  ReduceKind kind = ReduceKind::sum;
  struct Dim {
    int64_t extent, stride;
  };
  std::vector<Dim> dims;         // (rank <= 8), outermost first
  std::vector<bool> reduced;     // of each dim; alternates
  int64_t kept = 1, summed = 1;  // elements of the output; of each sum
  std::vector<int64_t> out;      // dims of the output
};
Reduce parse_reduce(const plait_op_desc& d);

}  // namespace plait::kit

// Cross-entropy of logits (R.., C) against class indices (R..): a loss and a log-sum-exp per row;
// and its gradient.
#pragma once

#include "kit/ops/rows.hpp"

namespace plait::kit {

inline constexpr plait_option kCrossEntropyAttrs[] = {
    below(at_least(
              real_option("label_smoothing", "0.0", "share of the target spread over all classes"),
              0),
          1),
};
// Of a part of the classes: the first class of the part, and the classes of all parts. The columns
// behind the last class are padding.
inline constexpr plait_option kCrossEntropyPart[] = {
    at_least(int_option("first", "0", "first class of the part"), 0),
    at_least(int_option("total", "0", "classes of all parts; 0: this is no part"), 0),
};

struct CrossEntropy {
  Rows x;
  uint32_t dtype = 0, label = 0;  // of logits and labels
  double smoothing = 0;
  bool part = false;
  int64_t first = 0, total = 0;
  int64_t valid = 0;  // columns that are classes
};
CrossEntropy parse_cross_entropy(const plait_op_desc& d, bool grad);

}  // namespace plait::kit

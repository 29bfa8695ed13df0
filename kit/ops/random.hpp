// Counter-based random numbers (Philox4x32-10): element e of a sample depends on (seed, stream,
// step, sample, e) alone.
#pragma once

#include "kit/op_attrs.hpp"

namespace plait::kit {

inline constexpr plait_option kRandomAttrs[] = {
    text_attr("kind", "\"uniform\"", "uniform|normal", "in [0, 1), or of mean 0 and deviation 1"),
    ints_attr("shape", nullptr, "of the result; the first axis counts the samples"),
    int_attr("seed", "0", "of the run"),
    int_attr("stream", "0", "who draws"),
};

struct Random {
  bool normal = false;
  bool by_sample = false;  // the counter is (step, first sample), else (step)
  int64_t samples = 1, per_sample = 0;
  uint64_t seed = 0;
  int64_t stream = 0;
  std::vector<int64_t> out;  // dims of the output
};
Random parse_random(const plait_op_desc& d);

}  // namespace plait::kit

// Counter-based random numbers (Philox4x32-10): element e of a sample depends on (seed, stream,
// step, sample, e) alone.
#pragma once

#include "kit/op_attrs.hpp"

namespace plait::kit {

inline constexpr plait_option kRandomAttrs[] = {
    choice_option("kind", "\"uniform\"", "uniform|normal",
                  "in [0, 1), or of mean 0 and deviation 1"),
    ints_option("shape", nullptr, "of the result; the first axis counts the samples"),
    int_option("seed", "0", "of the run"),
    int_option("stream", "0", "which numbers: ops with equal streams draw equal numbers"),
};

// Of a part of the numbers: those that the whole has there.
inline constexpr plait_option kRandomPart[] = {
    int_option("axis", "0", "of a part: the axis that it is a range of"),
    int_option("first", "0", "of a part: where it begins on that axis"),
    int_option("total", "0", "of a part: indices of the whole on that axis; 0: this is the whole"),
};

struct Random {
  bool normal = false;
  bool by_sample = false;  // the counter is (step, first sample), else (step)
  int64_t samples = 1, per_sample = 0;
  int64_t first_sample = 0;  // added to the counter's
  // A sample's elements are runs of the whole sample's: run r begins there at first + r * stride.
  int64_t runs = 1, run = 0, stride = 0, first = 0;
  // The number of element e within its whole sample.
  int64_t element(int64_t e) const { return e / run * stride + first + e % run; }
  uint64_t seed = 0;
  int64_t stream = 0;
  std::vector<int64_t> out;  // dims of the output
};
Random parse_random(const plait_op_desc& d);

}  // namespace plait::kit

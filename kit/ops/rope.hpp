// Rotary position embeddings (Su et al. 2021). B samples, T tokens, n heads, d channels, of which
// the first r are rotated in r/2 pairs.
#pragma once

#include "kit/op_attrs.hpp"

namespace plait::kit {

inline constexpr plait_option kRopeTableAttrs[] = {
    at_least(int_option("channels", nullptr, "r: channels of a head that are rotated, even"), 1),
    at_least(int_option("length", "0",
                        "T, the tokens of a sample: where no positions are given, they are 0 to "
                        "T-1; not with lengths"),
             0),
    above(real_option("theta", "10000", "pair j turns by theta^(-2j/r) per position"), 0),
    choice_option("scaling", "\"none\"", "none|linear|llama3|yarn|longrope",
                  "how the angles change beyond the length of the training"),
    above(real_option("factor", "1", "how many times longer than in training"), 0),
    above(real_option("low", "1", "llama3: turns over the old length below which pairs slow down"),
          0),
    above(real_option("high", "4", "llama3: turns over the old length above which they do not"), 0),
    at_least(int_option("original", "0", "the length of the training; not of none, linear"), 0),
    above(real_option("beta_fast", "32", "yarn: as `high`"), 0),
    above(real_option("beta_slow", "1", "yarn: as `low`"), 0),
    at_least(real_option("amplitude", "0", "factor of cos and sin; 0: that of yarn and longrope"),
             0),
    at_least(real_option("mscale", "0", "yarn: of the amplitude"), 0),
    at_least(real_option("mscale_all_dim", "0", "yarn: of the amplitude"), 0),
    text_option("factors", "\"\"",
                "longrope: r/2 numbers, what divides the angle of each pair in samples of at most "
                "`original` tokens"),
    text_option("long_factors", "\"\"", "longrope: the same of longer samples"),
};

inline constexpr plait_option kRopeAttrs[] = {
    choice_option("pairs", "\"half\"", "half|adjacent",
                  "the two channels of pair j: j and j + r/2, or 2j and 2j + 1"),
    bool_option("inverse", "false", "turn back"),
};

struct RopeTable {
  bool has_positions = false, has_lengths = false;
  int64_t tokens = 0;        // all of them: B*T, or T
  int64_t sample = 0;        // tokens of a sample in `tokens`
  std::vector<int64_t> out;  // dims of cos and of sin
  // Of each pair, radians per position. With lengths: of samples of at most `original` tokens, and
  // of longer ones.
  std::vector<float> frequency, long_frequency;
  int64_t original = 0;
  float amplitude = 1;
  const std::vector<float>& frequency_of(int64_t length) const {
    return has_lengths && length > original ? long_frequency : frequency;
  }
};
// [positions (..)] -> cos, sin (.., r/2), or (T, r/2). positions (B, ..), lengths (B) -> the same,
// each sample by its length.
RopeTable parse_rope_table(const plait_op_desc& d);

struct Rope {
  int64_t samples = 0, tokens = 0, heads = 0, channels = 0, pairs = 0;  // B, T, n, d, r/2
  bool by_sample = false;  // cos and sin differ between samples
  bool adjacent = false, inverse = false;
  // The channels of pair j.
  int64_t first(int64_t j) const { return adjacent ? 2 * j : j; }
  int64_t second(int64_t j) const { return adjacent ? 2 * j + 1 : j + pairs; }
};
// x (B,T,n,d), cos, sin (B,T,r/2) or (T,r/2) -> y (B,T,n,d).
Rope parse_rope(const plait_op_desc& d);

}  // namespace plait::kit

// Draws a token from logits on the host, by the algorithm of kit/draw_token.hpp, as a device with
// the op draw_tokens does. The order of the steps is that of the transformers library.
//   V vocabulary
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kit/draw_token.hpp"

namespace plait::generate {

// A value that changes nothing: 1, but 0 for top_k and min_p.
struct Sampling {
  double temperature = 1;  // 0: the most likely token
  int64_t top_k = 0;
  double top_p = 1, min_p = 0, repetition_penalty = 1;
  uint64_t seed = 0;
};

// The number that a draw depends on, besides the seed.
struct Draw {
  uint64_t sequence = 0;
  int64_t index = 0;  // of the token, from 0
};

struct ScoredToken {
  int32_t id = 0;
  float score = 0;  // a logit or a log-probability
};

// What draws the same token on a device, of ids [0, ids). The repetition penalty is the sampler's
// alone.
kit::DrawSettings settings_of(const Sampling& sampling, const Draw& draw, int64_t ids);
// Throws PLAIT_ERR_NUMERIC for kLogitNan, kLogitsImpossible and kLogitInfinite, PLAIT_ERR_PLUGIN
// for any other number outside of [0, ids).
void check_drawn(int32_t id, int64_t ids);

// Owner thread only. Allocates when it is made only.
class Sampler {
 public:
  explicit Sampler(int64_t vocabulary);

  // Returns an id by its logits (V). seen: ids of the sequence so far, for the penalty.
  // banned: ids that are not drawn. Errors: PLAIT_ERR_NUMERIC when a logit is NaN or all are
  // -infinity.
  int32_t draw(std::span<const float> logits, const Sampling& sampling,
               std::span<const int32_t> seen, std::span<const int32_t> banned, const Draw& draw);
  // What `draw` draws from, in the order of ids, where the temperature is not 0: scores are
  // probabilities up to a factor. The sampler's own, until the next call.
  std::span<const ScoredToken> candidates(std::span<const float> logits, const Sampling& sampling,
                                          std::span<const int32_t> seen,
                                          std::span<const int32_t> banned);

  // log Σ exp(logit): a logit minus this is the log-probability of its token.
  static double log_sum_exp(std::span<const float> logits);
  // The n most likely tokens, the likeliest first, the lowest id first of equals.
  static void best(std::span<const float> logits, size_t n, std::vector<ScoredToken>& to);

 private:
  // The logits to draw from: those given, penalized, without the banned.
  std::span<const float> take(std::span<const float> logits, const Sampling& sampling,
                              std::span<const int32_t> seen, std::span<const int32_t> banned);
  void penalize(double penalty, std::span<const int32_t> seen);

  std::vector<ScoredToken> candidates_;  // (<= V)
  std::vector<float> logits_;            // (V)
  std::vector<char> penalized_;          // (V)
  std::vector<uint64_t> scratch_;
};

}  // namespace plait::generate

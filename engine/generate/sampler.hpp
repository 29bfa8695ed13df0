// Draws a token from logits. The order of the steps is that of the transformers library.
//   V vocabulary
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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
  // logits_ become those given, penalized, without the banned.
  void take(std::span<const float> logits, const Sampling& sampling, std::span<const int32_t> seen,
            std::span<const int32_t> banned);
  void keep(const Sampling& sampling);
  void penalize(double penalty, std::span<const int32_t> seen);
  // candidates_ become the tokens that may be drawn, with probabilities that are not normalised.
  void keep_top_k(int64_t k);
  void keep_top_p(double p);
  void keep_min_p(double p);

  std::vector<ScoredToken> candidates_;  // (<= V)
  std::vector<float> logits_, scratch_;  // (V)
  std::vector<char> penalized_;          // (V)
};

}  // namespace plait::generate

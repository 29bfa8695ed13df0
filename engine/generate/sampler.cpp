#include "engine/generate/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/base/error.hpp"
#include "kit/philox.hpp"

namespace plait::generate {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool likelier(const ScoredToken& a, const ScoredToken& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

// Uniform in (0, 1).
double uniform(uint64_t seed, const Draw& draw) {
  const auto block = kit::philox(static_cast<uint64_t>(draw.index), draw.sequence, seed);
  const uint64_t bits = (uint64_t{block[0]} << 21) ^ (block[1] >> 11);
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

// Finite, unless it is banned.
void check(std::span<const float> logits) {
  float greatest = kNever;
  for (const float v : logits) {
    if (std::isnan(v)) fail(PLAIT_ERR_NUMERIC, "[generate] a logit is NaN");
    greatest = std::max(greatest, v);
  }
  if (!std::isfinite(greatest))
    fail(PLAIT_ERR_NUMERIC,
         greatest < 0 ? "[generate] all logits are -infinity" : "[generate] a logit is infinite");
}

int32_t most_likely(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

Sampler::Sampler(int64_t vocabulary)
    : scratch_(static_cast<size_t>(vocabulary)), penalized_(static_cast<size_t>(vocabulary), 0) {
  candidates_.reserve(static_cast<size_t>(vocabulary));
  logits_.reserve(static_cast<size_t>(vocabulary));
}

// Keskar et al. 2019, each id once.
void Sampler::penalize(double penalty, std::span<const int32_t> seen) {
  for (const int32_t id : seen) {
    const auto i = static_cast<size_t>(id);
    if (i >= logits_.size() || penalized_[i]) continue;
    penalized_[i] = 1;
    logits_[i] = static_cast<float>(logits_[i] > 0 ? logits_[i] / penalty : logits_[i] * penalty);
  }
  for (const int32_t id : seen) penalized_[static_cast<size_t>(id)] = 0;
}

void Sampler::keep_top_k(int64_t k) {
  float least = kNever;
  if (k > 0 && static_cast<size_t>(k) < logits_.size()) {
    const auto end = std::copy(logits_.begin(), logits_.end(), scratch_.begin());
    const auto nth = scratch_.begin() + (k - 1);
    std::nth_element(scratch_.begin(), nth, end, std::greater<>());
    least = *nth;
  }
  candidates_.clear();
  for (size_t i = 0; i < logits_.size(); ++i)
    if (logits_[i] >= least && logits_[i] > kNever)
      candidates_.push_back({static_cast<int32_t>(i), logits_[i]});
}

// Holtzman et al. 2020. A token stays while those that are likelier sum up to less than p.
void Sampler::keep_top_p(double p) {
  double total = 0, so_far = 0;
  for (const ScoredToken& c : candidates_) total += c.score;
  const auto heap = [](const ScoredToken& a, const ScoredToken& b) { return likelier(b, a); };
  std::make_heap(candidates_.begin(), candidates_.end(), heap);
  auto end = candidates_.end();
  while (end != candidates_.begin() && so_far < p * total) {
    std::pop_heap(candidates_.begin(), end, heap);
    so_far += (--end)->score;
  }
  candidates_.erase(candidates_.begin(), end);
}

void Sampler::keep_min_p(double p) {
  float greatest = 0;
  for (const ScoredToken& c : candidates_) greatest = std::max(greatest, c.score);
  const double least = p * greatest;
  std::erase_if(candidates_, [&](const ScoredToken& c) { return c.score < least; });
}

void Sampler::take(std::span<const float> logits, const Sampling& s, std::span<const int32_t> seen,
                   std::span<const int32_t> banned) {
  logits_.assign(logits.begin(), logits.end());
  if (s.repetition_penalty != 1) penalize(s.repetition_penalty, seen);
  for (const int32_t id : banned)
    if (id >= 0 && static_cast<size_t>(id) < logits_.size())
      logits_[static_cast<size_t>(id)] = kNever;
  check(logits_);
}

void Sampler::keep(const Sampling& s) {
  keep_top_k(s.top_k);
  float greatest = kNever;
  for (const ScoredToken& c : candidates_) greatest = std::max(greatest, c.score);
  for (ScoredToken& c : candidates_)
    c.score = std::exp(static_cast<float>((c.score - greatest) / s.temperature));
  if (s.top_p < 1) keep_top_p(s.top_p);
  if (s.min_p > 0) keep_min_p(s.min_p);
  if (s.top_p < 1)
    std::sort(candidates_.begin(), candidates_.end(),
              [](const ScoredToken& a, const ScoredToken& b) { return a.id < b.id; });
}

std::span<const ScoredToken> Sampler::candidates(std::span<const float> logits, const Sampling& s,
                                                 std::span<const int32_t> seen,
                                                 std::span<const int32_t> banned) {
  take(logits, s, seen, banned);
  keep(s);
  return candidates_;
}

int32_t Sampler::draw(std::span<const float> logits, const Sampling& s,
                      std::span<const int32_t> seen, std::span<const int32_t> banned,
                      const Draw& draw) {
  take(logits, s, seen, banned);
  if (s.temperature == 0) return most_likely(logits_);
  keep(s);
  double total = 0, so_far = 0;
  for (const ScoredToken& c : candidates_) total += c.score;
  const double at = uniform(s.seed, draw) * total;
  for (const ScoredToken& c : candidates_)
    if ((so_far += c.score) > at) return c.id;
  return candidates_.back().id;
}

double Sampler::log_sum_exp(std::span<const float> logits) {
  const float greatest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - greatest);
  return greatest + std::log(sum);
}

void Sampler::best(std::span<const float> logits, size_t n, std::vector<ScoredToken>& to) {
  to.clear();
  if (n == 0) return;
  const auto worst_first = [](const ScoredToken& a, const ScoredToken& b) {
    return likelier(a, b);
  };
  for (size_t i = 0; i < logits.size(); ++i) {
    const ScoredToken c{static_cast<int32_t>(i), logits[i]};
    if (to.size() == n && !likelier(c, to.front())) continue;
    if (to.size() == n) {
      std::pop_heap(to.begin(), to.end(), worst_first);
      to.pop_back();
    }
    to.push_back(c);
    std::push_heap(to.begin(), to.end(), worst_first);
  }
  std::sort_heap(to.begin(), to.end(), worst_first);
}

}  // namespace plait::generate

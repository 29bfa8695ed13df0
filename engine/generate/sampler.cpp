#include "engine/generate/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::generate {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

bool likelier(const ScoredToken& a, const ScoredToken& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

// The operands of a row.
struct Row {
  explicit Row(const kit::DrawSettings& s) { kit::write_row(s, settings, numbers); }
  float settings[kit::kDrawSettings];
  int32_t numbers[kit::kDrawNumbers];
};

using RowDraw = kit::TokenDraw<kit::PlainLogits>;

}  // namespace

kit::DrawSettings settings_of(const Sampling& s, const Draw& draw, int64_t ids) {
  kit::DrawSettings to;
  to.temperature = s.temperature, to.top_p = s.top_p, to.min_p = s.min_p, to.top_k = s.top_k;
  to.seed = s.seed, to.sequence = draw.sequence, to.index = draw.index;
  to.ids = ids;
  return to;
}

void check_drawn(int32_t id, int64_t ids) {
  if (id == kit::kLogitNan) fail(PLAIT_ERR_NUMERIC, "[generate] a logit is NaN");
  if (id == kit::kLogitsImpossible) fail(PLAIT_ERR_NUMERIC, "[generate] all logits are -infinity");
  if (id == kit::kLogitInfinite) fail(PLAIT_ERR_NUMERIC, "[generate] a logit is infinite");
  if (id < 0 || id >= ids)
    fail(
        PLAIT_ERR_PLUGIN,
        strf(
            "[generate] a kernel of the op draw_tokens gave the id %d, expected 0 to %ld; tell the "
            "author of the device's plugin",
            id, static_cast<long>(ids - 1)));
}

Sampler::Sampler(int64_t vocabulary)
    : penalized_(static_cast<size_t>(vocabulary), 0),
      scratch_(static_cast<size_t>(RowDraw::scratch_words(vocabulary))) {
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

std::span<const float> Sampler::take(std::span<const float> logits, const Sampling& s,
                                     std::span<const int32_t> seen,
                                     std::span<const int32_t> banned) {
  if (s.repetition_penalty == 1 && banned.empty()) return logits;
  logits_.assign(logits.begin(), logits.end());
  if (s.repetition_penalty != 1) penalize(s.repetition_penalty, seen);
  for (const int32_t id : banned)
    if (id >= 0 && static_cast<size_t>(id) < logits_.size())
      logits_[static_cast<size_t>(id)] = kNever;
  return logits_;
}

std::span<const ScoredToken> Sampler::candidates(std::span<const float> logits, const Sampling& s,
                                                 std::span<const int32_t> seen,
                                                 std::span<const int32_t> banned) {
  const std::span<const float> from = take(logits, s, seen, banned);
  const Row row(settings_of(s, {}, static_cast<int64_t>(from.size())));
  candidates_.clear();
  RowDraw(from, scratch_.data()).each_kept(row.settings, row.numbers, [&](int32_t id, uint64_t w) {
    candidates_.push_back({id, static_cast<float>(w)});
  });
  return candidates_;
}

int32_t Sampler::draw(std::span<const float> logits, const Sampling& s,
                      std::span<const int32_t> seen, std::span<const int32_t> banned,
                      const Draw& draw) {
  const std::span<const float> from = take(logits, s, seen, banned);
  const Row row(settings_of(s, draw, static_cast<int64_t>(from.size())));
  const int32_t id = RowDraw(from, scratch_.data()).draw(row.settings, row.numbers).id;
  check_drawn(id, static_cast<int64_t>(logits.size()));
  return id;
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

// The errors for results that are not finite: finds whether the data is the cause, and the op that
// computed them.
#include <algorithm>
#include <cmath>
#include <compare>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/session/session.hpp"

namespace plait::session {
namespace {

// The advice for a layer that is too small: "set model.layers[5].out = 8 or more". The option is
// the one whose value is the extent.
std::string advice(const config::Experiment& experiment, const plan::IndexRange& bound,
                   int64_t largest) {
  if (largest >= bound.end)
    for (const auto& model : experiment.models)
      for (const auto& layer : model.layers) {
        if (model.name + "." + layer.name != bound.maker) continue;
        for (const auto& option : layer.options.values())
          if (option.declared->type == PLAIT_OPT_INT && option.integer == bound.end)
            return strf("set %s.%s = %ld or more, or correct the data", layer.path.c_str(),
                        option.declared->name, static_cast<long>(largest + 1));
      }
  return "correct the data";
}

// A value that is not finite, found by one rank. text: "" if it found none.
struct Found {
  struct Position {
    int64_t program = 0;  // its order within a step, over all ranks
    uint64_t op = 0;
    auto operator<=>(const Position&) const = default;
  };
  Position at;
  std::string text;
};

// The form in which ranks exchange it: the bytes of the position, then the text.
std::string packed(const Found& found) {
  std::string bytes(sizeof found.at, 0);
  std::memcpy(bytes.data(), &found.at, sizeof found.at);
  return bytes + found.text;
}
Found unpacked(const std::string& bytes) {
  Found found;
  if (bytes.size() < sizeof found.at) return found;
  std::memcpy(&found.at, bytes.data(), sizeof found.at);
  found.text = bytes.substr(sizeof found.at);
  return found;
}

}  // namespace

// The message for a staged value that is out of range; "" if there is none. source: "[data.train]"
// or "[feed]".
std::string Session::out_of_range_text(const Feeder::OutOfRange& found, const std::string& source,
                                       const std::string& where) const {
  if (!found.field) return "";
  const plan::IndexRange& b = *found.bound;
  const auto end = static_cast<long>(b.end);
  return strf("%s field '%s' is %ld in %s, which is out of range: %s has %ld %s, 0 to %ld",
              source.c_str(), found.field->name.c_str(), static_cast<long>(found.value),
              where.c_str(), b.maker.c_str(), end, b.labels ? "classes" : "entries", end - 1) +
         (b.maker == b.reader ? "" : ", for " + b.reader) + "; " +
         advice(plan_->experiment, b, found.largest);
}

// Collective. own: the message for the samples of this rank, or "".
void Session::fail_out_of_range(const std::string& own) {
  const std::vector<std::string> all = ranks_.all_gather(own);
  for (size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty())
      fail_collective(
          PLAIT_ERR_DATA,
          all[r] + (ranks_.is_single() ? "" : " (found by rank " + std::to_string(r) + ")"));
}

// Whether the loss of the last step is 0/0: the weights of all samples of all ranks are 0.
bool Session::has_zero_weight() const {
  return std::any_of(plan_->models.begin(), plan_->models.end(), [&](const plan::Model& m) {
    return m.trained && results_.get(m.weight_sum) == 0;
  });
}

// The text about the first non-finite value in program order on any rank; "" if there is none.
std::string Session::first_non_finite() {
  Found own;
  for (const plan::Launch& t : plan_->step_launches) {
    if (t.micro < plan_->accumulation - 1) continue;
    const runtime::Executor::NonFiniteValue f = executor_.first_non_finite(t.program, t.slot);
    if (f.text.empty()) continue;
    const Found found{{plan_->programs[static_cast<size_t>(t.program)].order, f.op}, f.text};
    if (own.text.empty() || found.at < own.at) own = found;
  }
  const std::vector<std::string> all = ranks_.all_gather(packed(own));
  Found first;
  size_t rank = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    const Found one = unpacked(all[r]);
    if (one.text.empty() || (!first.text.empty() && one.at >= first.at)) continue;
    first = one;
    rank = r;
  }
  if (first.text.empty()) return "";
  return first.text + (ranks_.is_single() ? "" : " on rank " + std::to_string(rank));
}

void Session::guard_numerics(const StepResult& r, const Feeder::OutOfRange& outside) {
  consecutive_skipped_ = r.skipped ? consecutive_skipped_ + 1 : 0;
  if (!r.skipped) return;
  // An index that no op accepts is a fault of the data: later steps cannot repair it.
  fail_out_of_range(
      out_of_range_text(outside, "[data.train]", strf("step %ld", static_cast<long>(r.step))));
  const int64_t limit = plan_->experiment.guard.nonfinite_limit;
  log_.warn(
      strf("[session] step %ld is not finite (loss %s, gradient norm %s%s): skipped, %ld in a row",
           static_cast<long>(r.step), real_text(std::abs(r.loss)).c_str(),
           real_text(std::abs(r.grad_norm)).c_str(),
           has_zero_weight() ? "; the weights of its samples are all 0" : "",
           static_cast<long>(consecutive_skipped_)));
  if (limit > 0 && consecutive_skipped_ >= limit) fail_numerics(r, "");
}

// Throws the error of a run whose last steps, up to this one, were not finite. saved: the end of
// the text, about saved state.
void Session::fail_numerics(const StepResult& r, const std::string& saved) {
  const auto step = static_cast<long>(r.step), n = static_cast<long>(consecutive_skipped_);
  const std::string steps =
      n == 1 ? strf("[session] step %ld was not finite; ", step)
             : strf("[session] %ld steps in a row were not finite, up to step %ld; ", n, step);
  if (has_zero_weight())
    fail_collective(
        PLAIT_ERR_DATA,
        steps +
            "the weights of all samples of that step are 0, or all its labels below 0, so "
            "that its loss is the mean of nothing; correct the weights or the labels of "
            "[data.train]" +
            saved);
  // The inputs of the last micro-batch and the unchanged parameters are still in memory: run it
  // again and check every result. All ranks run all of it, because it contains collectives. If the
  // next step is in flight the inputs are overwritten, and running that step again would apply it
  // twice.
  const bool gone = in_flight() > 0;
  const std::string op = gone ? "" : first_non_finite();
  fail_collective(
      PLAIT_ERR_NUMERIC,
      steps + "the first value that is not finite comes from " +
          (gone         ? "an op that cannot be named, as the next step was launched already"
           : op.empty() ? "an earlier micro-batch"
                        : op) +
          "; lower the learning rate, set optimizer.clip_grad_norm, or look at the data" +
          (saved.empty() ? "; [guard] nonfinite_limit sets the patience" : "") + saved);
}

}  // namespace plait::session

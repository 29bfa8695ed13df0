#include "engine/session/numerics.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/session/batch_samples.hpp"

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
    auto operator<=>(const Position&) const = default;  // NOLINT(modernize-use-nullptr)
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

std::string out_of_range_text(const plan::Plan& plan, const Feeder::OutOfRange& found,
                              const std::string& source, const std::string& where) {
  if (!found.field) return "";
  const plan::IndexRange& b = *found.bound;
  const auto end = static_cast<long>(b.end);
  if (!b.allowed.empty())
    return strf("%s field '%s' is %ld in %s, expected %s; correct the data", source.c_str(),
                found.field->name.c_str(), static_cast<long>(found.value), where.c_str(),
                b.allowed.c_str());
  const std::string all =
      end == 1 ? strf("1 %s, 0", b.labels ? "class" : "entry")
               : strf("%ld %s, 0 to %ld", end, b.labels ? "classes" : "entries", end - 1);
  return strf("%s field '%s' is %ld in %s, which is out of range: %s has ", source.c_str(),
              found.field->name.c_str(), static_cast<long>(found.value), where.c_str(),
              b.maker.c_str()) +
         all + (b.maker == b.reader ? "" : ", for " + b.reader) + "; " +
         advice(plan.experiment, b, found.largest);
}

void fail_out_of_range(RankContext& ranks, const std::string& own) {
  const std::vector<std::string> all = ranks.all_gather(own);
  for (size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty())
      fail_collective(
          PLAIT_ERR_DATA,
          all[r] + (ranks.is_single() ? "" : " (found by rank " + std::to_string(r) + ")"));
}

std::string counts_nothing_text(const plan::Plan& plan) {
  // With adapter_field, samples of the base alone train nothing.
  const auto& models = plan.experiment.models;
  const bool by_sample =
      std::any_of(models.begin(), models.end(),
                  [](const config::ModelConfig& m) { return !m.adapter_field.empty(); });
  return std::string("the weights of all samples are 0, or all labels below 0") +
         (by_sample ? ", or no sample takes an adapter" : "");
}

// Whether the loss of the last step is 0/0: the weights of all samples of all ranks are 0.
bool NumericsGuard::has_zero_weight() const {
  return std::any_of(c_.plan.models.begin(), c_.plan.models.end(), [&](const plan::Model& m) {
    return m.trained && results_.get(m.weight_sum) == 0;
  });
}

// The text about the first non-finite value in program order on any rank; "" if there is none.
std::string NumericsGuard::first_non_finite() {
  Found own;
  for (const plan::Launch& t : c_.plan.entry_point(plan::kTrainStep).launches) {
    if (t.micro < c_.plan.accumulation - 1) continue;
    const runtime::Executor::NonFiniteValue f = c_.executor.first_non_finite(t.program, t.slot);
    if (f.text.empty()) continue;
    const Found found{{c_.plan.programs[static_cast<size_t>(t.program)].order, f.op}, f.text};
    if (own.text.empty() || found.at < own.at) own = found;
  }
  const std::vector<std::string> all = c_.ranks.all_gather(packed(own));
  Found first;
  size_t rank = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    const Found one = unpacked(all[r]);
    if (one.text.empty() || (!first.text.empty() && one.at >= first.at)) continue;
    first = one;
    rank = r;
  }
  if (first.text.empty()) return "";
  return first.text + (c_.ranks.is_single() ? "" : " on rank " + std::to_string(rank));
}

namespace {

// The first text of any rank, with the rank where there are several.
std::string first_of_ranks(RankContext& ranks, const std::string& own) {
  const std::vector<std::string> all = ranks.all_gather(own);
  for (size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty()) return all[r] + (ranks.is_single() ? "" : " on rank " + std::to_string(r));
  return "";
}

// What a user corrects. batch: as of NumericsGuard::Samples.
std::string source_of(int64_t batch) {
  return batch < 0 ? "the batch that was fed" : "[data.train]";
}

}  // namespace

void NumericsGuard::check(const StepResult& r, const Samples& samples, bool next_launched) {
  // An overflow that a smaller loss scale may end does not count. The device's scale is f32.
  const bool scales =
      r.skipped && r.loss_scale > c_.plan.experiment.precision.scale_min * (1 + 1e-6);
  c_.state.consecutive_skipped = !r.skipped ? 0 : c_.state.consecutive_skipped + (scales ? 0 : 1);
  if (!r.skipped) return;
  batch_ = samples.batch;
  // An index that no op accepts is a fault of the data: later steps cannot repair it.
  fail_out_of_range(
      c_.ranks, out_of_range_text(c_.plan, samples.outside, batch_ < 0 ? "[feed]" : "[data.train]",
                                  strf("step %ld", static_cast<long>(r.step))));
  if (scales)
    return c_.log.info([&] {
      return strf("[session] step %ld overflows with loss scale %g: skipped, next %g",
                  static_cast<long>(r.step), r.loss_scale, c_.state.loss_scale[0]);
    });
  const int64_t limit = c_.plan.experiment.guard.nonfinite_limit;
  const std::string input = first_of_ranks(c_.ranks, samples.non_finite);
  c_.log.warn(strf(
      "[session] step %ld is not finite (loss %s, gradient norm %s%s%s): skipped, %ld in a row",
      static_cast<long>(r.step), real_text(std::abs(r.loss)).c_str(),
      real_text(std::abs(r.grad_norm)).c_str(),
      has_zero_weight() ? ("; " + counts_nothing_text(c_.plan)).c_str() : "",
      input.empty() ? "" : ("; " + input + ": correct " + source_of(batch_)).c_str(),
      static_cast<long>(c_.state.consecutive_skipped)));
  if (limit > 0 && c_.state.consecutive_skipped >= limit) fail(r, "", next_launched);
}

namespace {

void write_samples(JsonWriter& w, const plan::Plan& plan, int64_t batch) {
  const BatchSamples samples(plan, batch);
  w.field("epoch", samples.epoch()).field("batch", batch).key("samples").array();
  for (int64_t i = 0; i < samples.size(); ++i) w.value(samples[i]);
  w.end_array();
}

}  // namespace

// The error that follows says more than that there is no such file.
void NumericsGuard::dump(const StepResult& r, const std::string& op) noexcept {
  if (!c_.run_files) return;
  try {
    JsonWriter w(true);
    w.object().field("schema", 1).field("step", r.step);
    w.field("steps_in_a_row", c_.state.consecutive_skipped).field("first", op);
    w.field("loss", r.loss).field("grad_norm", r.grad_norm);
    w.field("learning_rate", r.learning_rate).field("loss_scale", r.loss_scale);
    if (batch_ >= 0) write_samples(w, c_.plan, batch_);
    w.end_object();
    const std::string folder = join_path(c_.run_files->dir().path(), "nonfinite"),
                      path = join_path(folder, strf("step-%ld.json", static_cast<long>(r.step)));
    c_.files.make_folders(folder);
    c_.files.replace(path, w.text() + "\n");
    c_.log.warn("[session] '" + path + "' has the figures " +
                (batch_ >= 0 ? "and the samples " : "") +
                strf("of step %ld", static_cast<long>(r.step)));
  } catch (const std::exception& e) {
    c_.log.warn(std::string("[session] the step that was not finite could not be noted: ") +
                e.what());
  }
}

void NumericsGuard::fail(const StepResult& r, const std::string& saved, bool next_launched) {
  const auto step = static_cast<long>(r.step), n = static_cast<long>(c_.state.consecutive_skipped);
  const std::string steps =
      n == 1 ? strf("[session] step %ld was not finite; ", step)
             : strf("[session] %ld steps in a row were not finite, up to step %ld; ", n, step);
  if (has_zero_weight())
    fail_collective(
        PLAIT_ERR_DATA,
        steps + "in that step " + counts_nothing_text(c_.plan) +
            ", so that its loss is the mean of nothing; correct the weights or the labels of " +
            source_of(batch_) + saved);
  // The inputs of the last micro-batch and the unchanged parameters are still in memory: run it
  // again and check every result. All ranks run all of it, because it contains collectives. If the
  // next step is in flight the inputs are overwritten, and running that step again would apply it
  // twice.
  next_launched = c_.on_any_rank(next_launched);
  const std::string op = next_launched ? "" : first_non_finite();
  dump(r, op);
  fail_collective(
      PLAIT_ERR_NUMERIC,
      steps + "the first value that is not finite comes from " +
          (next_launched ? "an op that cannot be named, as the next step was launched already"
           : op.empty()  ? "an earlier micro-batch"
                         : op) +
          "; lower the learning rate, set optimizer.clip_grad_norm, or look at the data" +
          (saved.empty() ? "; [guard] nonfinite_limit sets the patience" : "") + saved);
}

}  // namespace plait::session

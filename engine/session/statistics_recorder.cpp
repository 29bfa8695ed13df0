#include "engine/session/statistics_recorder.hpp"

#include "engine/base/clock.hpp"
#include "engine/plan/statistics_figures.hpp"
#include "kit/ops/statistics.hpp"

namespace plait::session {

StatisticsRecorder::StatisticsRecorder(SessionContext& context, StepRunner& steps)
    : c_(context),
      steps_(steps),
      entry_(c_.plan.entry_point(plan::kStatistics)),
      sums_(c_.plan.statistics.sums),
      extremes_(c_.plan.statistics.extremes),
      scales_(c_.plan.statistics.scales),
      first_step_(c_.state.step) {
  const plan::Statistics& s = c_.plan.statistics;
  for (const size_t f : s.figures) values_.push_back({plan::statistics_figures()[f].name, 0});
  for (const plan::StatisticsTensor& t : s.tensors)
    for (const observe::NamedValue& v : values_)
      tags_.push_back("statistics/" + t.name + "/" + std::string(v.name));
}

void StatisticsRecorder::record(const StepResult& r) {
  c_.on_all_ranks("statistics", [&] {
    write_scales(r);
    c_.refresh_low();
    for (const runtime::Executor::LaunchGroup& group : c_.executor.launches(entry_)) {
      if (group.first->feed >= 0) steps_.feed_again(entry_, *group.first);
      c_.executor.launch(group);
    }
    if (entry_.feed.batch > 0) {  // as the step left it
      plan::Launch last = *c_.executor.launches(entry_)[0].first;
      last.micro = c_.plan.accumulation - 1;
      steps_.feed_again(entry_, last);
    }
    c_.executor.read(sums_.place(), sums_.data(), sums_.bytes());
    c_.executor.read(extremes_.place(), extremes_.data(), extremes_.bytes());
  });
  if (c_.run_files) write_figures(r);
}

// Gradients are of the sum of the losses, times the loss scale, which the step may have changed.
void StatisticsRecorder::write_scales(const StepResult& r) {
  const auto seed = [&](double scale) { return r.loss_scale > 0 ? scale / c_.plan.loss_rows : 1; };
  const auto n = static_cast<int64_t>(c_.plan.models.size());
  for (int64_t m = 0; m < n; ++m) {
    const plan::Model& model = c_.plan.models[static_cast<size_t>(m)];
    const double weights = model.trained ? steps_.results().get(model.weight_sum) : 1;
    const auto& scales = c_.plan.statistics.scales;
    scales_.set(scales.at(m), 1 / (weights * seed(r.loss_scale)));
    scales_.set(scales.at(n + m), 1 / (weights * seed(c_.state.loss_scale[0])));
  }
  c_.executor.write(scales_.place(), scales_.data(), scales_.bytes());
}

void StatisticsRecorder::write_figures(const StepResult& r) {
  const plan::Statistics& s = c_.plan.statistics;
  const double now = unix_seconds();
  auto& lines = c_.run_files->statistics(first_step_);
  const auto* sums = static_cast<const double*>(sums_.data());
  const auto* extremes = static_cast<const double*>(extremes_.data());
  const std::string* tag = tags_.data();
  for (const plan::StatisticsTensor& t : s.tensors) {
    const plan::TensorSums of{sums, extremes, t.elements};
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i].value = plan::statistics_figures()[s.figures[i]].value(of);
      c_.run_files->scalar(*tag++, r.step, now, values_[i].value);
    }
    lines.add_event("statistics", r.step, now, values_, "tensor", t.name);
    sums += s.n_sums();
    extremes += kit::kStatisticsExtremes;
  }
  lines.flush();
}

}  // namespace plait::session

// What a run writes and shows of each step: lines of metrics, event files, the bar.
#include <cmath>

#include "engine/session/trainer.hpp"

namespace plait::session {

void Trainer::add_more(std::string_view name, std::string_view tag, double value) {
  more_.push_back({name, value});
  more_tags_.push_back(tag);
}

// A metric that counted nothing has no value, and is left out.
void Trainer::read_more(const StepResult& r) {
  more_.clear();
  more_tags_.clear();
  for (const GroupRate& g : groups_)
    add_more(g.line, g.tag, p_.steps.learning_rate(g.group, r.step));
  for (size_t i = 0; i < metric_tags_.size(); ++i)
    if (const double v = r.metrics[i].value; !std::isnan(v))
      add_more(r.metrics[i].name, metric_tags_[i], v);
  const std::optional<BusyTimes> busy = stragglers_.times();
  stragglers_.begin();
  if (!busy) return;
  add_more("busy_ms", "train/busy_ms", busy->median_ms);
  add_more("slowest_busy_ms", "train/slowest_busy_ms", busy->slowest_ms);
  add_more("slowest_rank", "train/slowest_rank", static_cast<double>(busy->slowest));
}

void Trainer::write_metrics(const StepResult& r, double elapsed) {
  const double now = unix_seconds();
  read_more(r);
  observe::StepRecord record;
  record.step = r.step;
  record.samples = r.samples;
  record.time = now;
  record.elapsed_s = elapsed;
  record.loss = r.loss;
  record.lr = r.learning_rate;
  record.grad_norm = r.grad_norm;
  record.step_ms = r.seconds * 1e3;
  record.samples_per_s = r.samples_per_s;
  record.mean_loss = r.mean_loss;
  record.tflops = r.tflops;
  record.tflops_full = r.tflops_full;
  record.mfu = r.mfu;
  record.mfu_full = r.mfu_full;
  record.tokens = r.tokens;
  record.tokens_per_s = r.tokens_per_s;
  if (clips_) record.grad_norm_clipped = r.grad_norm_clipped;
  record.skipped = r.skipped;
  record.skipped_steps = r.skipped_steps;
  record.more = more_;
  record.loss_scale = r.loss_scale;
  c_.run_files->metrics().step(record);
  if (c_.run_files->event_due(now) || r.finished) write_events(r, now);
}

void Trainer::write_events(const StepResult& r, double now) {
  const auto write = [&](std::string_view tag, double v) {
    c_.run_files->scalar(tag, r.step, now, v);
  };
  write("train/loss", r.loss);
  write("train/mean_loss", r.mean_loss);
  write("train/lr", r.learning_rate);
  for (size_t i = 0; i < more_.size(); ++i) write(more_tags_[i], more_[i].value);
  write("train/grad_norm", r.grad_norm);
  if (clips_) write("train/grad_norm_clipped", r.grad_norm_clipped);
  write("train/samples_per_s", r.samples_per_s);
  if (r.tokens > 0) {
    write("train/tokens", static_cast<double>(r.tokens));
    write("train/tokens_per_s", r.tokens_per_s);
  }
  if (r.tflops > 0) write("train/tflops", r.tflops);
  if (r.mfu > 0) write("train/mfu", r.mfu);
  if (r.skipped_steps > 0) write("train/skipped_steps", static_cast<double>(r.skipped_steps));
}

// The rates of the bar are over all steps since the start: it is redrawn far more often than a
// line is written. The estimate counts evaluations and saves, the rates do not.
void Trainer::show_progress(const StepResult& r, double elapsed) {
  observe::ProgressState p;
  p.step = r.step;
  p.steps = c_.plan.total_steps;
  p.loss = r.loss;
  p.lr = r.learning_rate;
  const double trained = p_.steps.training_seconds() - first_seconds_;
  if (trained > 0) p.samples_per_s = static_cast<double>(r.samples - first_samples_) / trained;
  p.tokens_per_s = p.samples_per_s * static_cast<double>(c_.plan.tokens_per_sample);
  if (r.samples_per_s > 0) p.mfu = r.mfu * p.samples_per_s / r.samples_per_s;
  if (const auto& e = p_.evaluator.last()) {
    p.evaluated_samples = e->samples;
    p.evaluation_loss = e->loss;
    p.perplexity = e->perplexity;
  }
  p.elapsed_s = elapsed;
  p.first_step = first_step_;
  if (c_.plan.steps_per_epoch > 0)
    p.epochs = static_cast<double>(r.step) / static_cast<double>(c_.plan.steps_per_epoch);
  progress_.update(p);
}

}  // namespace plait::session

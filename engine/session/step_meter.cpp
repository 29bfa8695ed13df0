#include "engine/session/step_meter.hpp"

#include <algorithm>

namespace plait::session {

void StepMeter::restart() {
  ended_ = true;  // the next step begins with sums of 0
  pause();
}

bool StepMeter::add(const Step& step, double peak_flops, StepResult& r) {
  const bool begins = ended_;
  if (begins) {
    seconds_ = loss_ = 0;
    samples_ = finite_ = 0;
  }
  // A step that was launched while the one before it still ran takes the time from that one's end.
  const uint64_t begin =
      follows_ && continues_ ? last_end_ns_ : std::max(step.begin_ns, last_end_ns_);
  const double seconds = static_cast<double>(step.end_ns - std::min(begin, step.end_ns)) * 1e-9;
  seconds_ += seconds;
  total_seconds_ += seconds;
  samples_ += step.samples;
  if (!r.skipped) {
    loss_ += r.loss;
    ++finite_;
  }
  last_end_ns_ = step.end_ns;
  continues_ = true;
  ended_ = r.step % units_.log_every == 0 || r.skipped || r.finished;

  r.mean_loss = finite_ > 0 ? loss_ / static_cast<double>(finite_) : r.loss;
  if (seconds_ <= 0) return begins;
  r.samples_per_s = static_cast<double>(samples_) / seconds_;
  r.tokens_per_s = r.samples_per_s * static_cast<double>(units_.tokens_per_sample);
  r.tflops = r.samples_per_s * units_.flops_per_sample * 1e-12;
  r.tflops_full = r.samples_per_s * units_.full_flops_per_sample * 1e-12;
  if (peak_flops <= 0) return begins;
  r.mfu = r.tflops * 1e12 / peak_flops;
  r.mfu_full = r.tflops_full * 1e12 / peak_flops;
  return begins;
}

}  // namespace plait::session

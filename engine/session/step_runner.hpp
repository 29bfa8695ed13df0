// Steps: feeds the next batch, launches the programs of a step, and reads its results.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/data_loader.hpp"
#include "engine/session/feeder.hpp"
#include "engine/session/host_buffer.hpp"
#include "engine/session/metric_sums.hpp"
#include "engine/session/numerics.hpp"
#include "engine/session/rank_metrics.hpp"
#include "engine/session/schedules.hpp"
#include "engine/session/session_context.hpp"
#include "engine/session/step_meter.hpp"

namespace plait::session {

// Owner thread only; every rank makes the same calls in the same order.
class StepRunner {
 public:
  explicit StepRunner(SessionContext& context);
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  StepResult step();  // the next batch of [data.train]
  StepResult step(const std::vector<HostField>& fields);

  // Finishes the step in flight before parameters are accessed; the next step() returns its
  // result, or throws its error. Until then every drain() throws that error: the other ranks learn
  // of it in their next collective call, and so must this one.
  void drain();
  // drain(), without the result or an error of before: what comes next does not continue it.
  void discard();
  // TrainingState::step has changed; with `counters` all of TrainingState, of which the device
  // counts the updates. No step may be in flight.
  void restore(bool counters);

  // Inside run() steps follow each other, and on a device that works asynchronously they may be
  // launched ahead.
  void follow(bool yes) {
    looks_ahead_ = yes && c_.executor.device().records();
    meter_.follow(yes);
    drain_error_ = nullptr;  // of another run
  }
  // What the host does before the next step is no time of steps.
  void pause() { meter_.pause(); }
  // Of all steps of this session: without evaluations, saves and what else pauses.
  double training_seconds() const { return meter_.total_seconds(); }
  // The rate of a group of the plan in a step, which counts from 1.
  double learning_rate(size_t group, int64_t step) const;
  // Warns of schedules that do not fit the length of the run.
  void warn_of_schedules() const;
  // Of the devices of all ranks together, per second; 0: not known. A device may measure.
  double peak_flops();
  // The next step is launched before the results of this one arrive: it needs nothing else from the
  // host. pauses_behind: whether the host reads parameters after a step.
  void launch_ahead(const std::function<bool(int64_t step)>& pauses_behind);
  // Whether a step was launched whose result step() has not returned yet.
  bool has_unreported() const { return in_flight() > 0 || has_drained(); }
  bool has_drained() const { return drained_.has_value() || drain_error_; }
  // No step has updated the adapter.
  void forget_updates(const std::string& model, const std::string& adapter);
  // Whether this rank asks for a save in the steps that are launched from now on.
  void want_save(bool yes) { wants_save_ = yes; }
  // Writes the samples of the last step for a launch of another entry point, which is fed as
  // train_step is.
  void feed_again(const plan::EntryPoint& entry, const plan::Launch& launch);
  // Of the last step.
  const HostBuffer& results() const { return results_; }
  std::span<const plait_metric_value> metrics() const { return metrics_.values(); }
  const StepTimes& own_times() const { return own_times_; }
  // See NumericsGuard::fail().
  [[noreturn]] void fail_numerics(const StepResult& result, const std::string& saved);

 private:
  // A step that has been launched and not finished.
  struct Launched {
    int64_t epoch = 0,
            next_batch = -1;  // next_batch: the loader's next batch; -1: the host fed the batch
    uint64_t start_ns = 0, results = 0;  // results: number of the download
    Feeder::OutOfRange outside =
        {};  // of its batch; the next batch may be staged before its results arrive
  };

  data::DataLoader& loader();
  Feeder& feeder();
  // A step in two parts, so that an asynchronous device can have the next step while the host waits
  // for the results of this one.
  void launch_next();
  void launch_step(uint64_t start_ns, int64_t epoch, int64_t samples, int64_t next_batch);
  StepResult finish_step();
  int64_t in_flight() const { return launched_ - c_.state.step; }
  // Writes the samples that a launch reads, if it reads any.
  void feed(const plan::EntryPoint& entry, const plan::Launch& launch, int64_t step);
  void write_scalars();
  void count_updates();
  void write_updates();
  void write_loss_scale();
  void read_loss_scale(StepResult& result);
  void read_results(StepResult& result);
  uint64_t waited_ns() const;
  void note_times(double seconds);
  std::string name_of_sample(int64_t batch, int64_t row) const;
  void add_totals(const Launched& launch, StepResult& result);

  SessionContext& c_;
  Schedules schedules_;
  const plan::EntryPoint& entry_;
  const std::vector<runtime::Executor::LaunchGroup>& launch_groups_;  // of the entry point
  std::optional<Feeder> feeder_;  // none where the plan only generates
  std::optional<data::DataLoader> loader_;
  Launched launches_[2];
  int64_t launched_ = 0;                      // the last launched step
  uint64_t finished_ns_ = 0;                  // end of the last step
  StepTimes own_times_;                       // of this rank in the last step
  uint64_t waited_before_ = 0, data_ns_ = 0;  // before the step in flight; its own, for data
  bool looks_ahead_ = false;
  std::optional<StepResult> drained_;  // result that the next step() returns
  std::exception_ptr drain_error_;     // or the error that it throws
  runtime::Uploads numbers_;           // step sums and scalars of a step
  runtime::Downloads outcomes_;        // its results
  HostBuffer scalars_, results_;       // of Plan::scalars and Plan::results
  HostBuffer step_sums_;               // of Plan::step_sums
  bool wants_save_ = false;
  StepMeter meter_;
  MetricSums metrics_;
  int32_t reported_group_;            // whose learning rate a result tells; -1: none
  std::optional<double> peak_flops_;  // of all ranks; 0: not known
  NumericsGuard guard_;
};

}  // namespace plait::session

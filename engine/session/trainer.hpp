// The training loop: step, log, evaluate, save, stop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/clock.hpp"
#include "engine/observe/progress.hpp"
#include "engine/session/session_parts.hpp"
#include "engine/session/slow_ops.hpp"
#include "engine/session/statistics_recorder.hpp"
#include "engine/session/stragglers.hpp"

namespace plait::session {

// One call of Session::run().
class Trainer {
 public:
  explicit Trainer(SessionParts& parts);

  StepResult run();

 private:
  observe::ProgressConfig progress_config() const;
  void log_step(const StepResult& r);
  void write_metrics(const StepResult& r, double elapsed);
  void write_events(const StepResult& r, double now);
  void show_progress(const StepResult& r, double elapsed);
  void read_more(const StepResult& r);
  void add_more(std::string_view name, std::string_view tag, double value);
  void pause();
  bool evaluate(const StepResult& r);  // true: early stopping
  void evaluate_at_end(const StepResult& r);
  Evaluation evaluation(const StepResult& r);
  int metric_index(const std::string& wanted, const char* key) const;
  bool is_higher_better(int metric) const;
  double value_of(const Evaluation& e, int metric) const;
  bool is_best(const Evaluation& e) const;
  bool stops_early(const StepResult& r, const Evaluation& e);
  void report(const StepResult& r, const Evaluation& e, bool best);
  void save_best(const StepResult& r, const Evaluation& e);
  enum class Stop { kOnRequest, kAfter };  // kAfter: Settings::stop_after
  [[noreturn]] void stop(const StepResult& r, Stop why = Stop::kOnRequest);
  void save(const StepResult& r, bool continues);
  void save_at_end(const StepResult& r);
  // What follows a save: steps; a save that fails if this step cannot be saved; an end that throws
  // the error of a save that failed; an end for another reason.
  enum class After { kSteps, kSave, kThrow, kEnd };
  void drain_save(const StepResult& r, After after = After::kSteps);
  void finish_save(const Error* e);
  template <class Call>
  auto keeps_parameters(Call&& call) -> decltype(call());
  void drain_behind_error();
  std::string save_behind_error();
  void saved(const StepResult& r, const SavedCheckpoint& s);
  void not_saved(const SavedCheckpoint& s, After after);
  uint64_t bytes_to_save();
  std::string next_save(int64_t step) const;
  void status(const char* state, const StepResult& r, const std::string& message = {});
  void failed(const std::string& message);
  bool pauses_behind(int64_t step) const;
  bool is_time_to_save() const;
  void warn(const std::string& text);
  StepResult step();
  bool made(const StepResult& r);
  StepResult loop();
  StepResult loop_and_save();
  StepResult run_and_report();

  SessionParts& p_;
  SessionContext& c_;
  const config::Experiment& experiment_;
  int64_t first_step_, first_samples_, saved_at_, evaluated_at_ = -1;
  double first_seconds_;        // of training, before this run
  std::optional<double> loss_;  // of the newest step of this run
  bool clips_ = false;
  // The learning rates of groups, if there are several: the group, its names in the files, the
  // rate.
  struct GroupRate {
    size_t group;
    std::string line, tag;
  };
  std::vector<GroupRate> groups_;
  std::optional<StatisticsRecorder> statistics_;  // of a plan with statistics
  std::vector<std::string> metric_tags_;          // as StepResult::metrics
  // Further values of a line, and their tags in event files.
  std::vector<observe::NamedValue> more_;
  std::vector<std::string_view> more_tags_;
  std::string checkpoint_;                    // the newest
  std::string ended_early_;                   // why, if it ends before its last step
  std::string best_metric_;                   // whose best checkpoint is kept; "": none
  TrainingState::Best kept_before_;           // until the checkpoint of state.kept is written
  TrainingState::Best kept_lost_;             // whose checkpoint could not be written
  std::optional<SavedCheckpoint> not_saved_;  // the newest save, if it failed
  // Of an error that ends the run: it left parameters and states as the last update made them, on
  // all ranks.
  bool parameters_whole_ = false;
  int64_t updates_saved_;  // the updates that the newest checkpoint has
  bool copies_;            // periodic saves are written from a copy
  Stragglers stragglers_;
  SlowOps slow_ops_;
  observe::Progress progress_;
  Stopwatch watch_, since_save_, since_status_;
};

}  // namespace plait::session

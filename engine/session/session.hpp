// A session: a plan in execution. Steps, evaluation, parameters, checkpoints; the training loop is
// in trainer.cpp.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/json.hpp"
#include "engine/base/log.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/data/data_loader.hpp"
#include "engine/plan/plan.hpp"
#include "engine/runtime/executor.hpp"
#include "engine/session/background_saver.hpp"
#include "engine/session/feeder.hpp"
#include "engine/session/host_buffer.hpp"
#include "engine/session/rank_context.hpp"
#include "engine/session/result_config.hpp"
#include "engine/session/run_files.hpp"
#include "engine/session/schedules.hpp"

namespace plait::session {

// The result of a step over the whole global batch.
struct StepResult {
  int64_t step = 0, epoch = 0, samples = 0;
  double loss = 0;           // weighted mean; with several models their sum
  double grad_norm = 0;      // global, before clipping
  double learning_rate = 0;  // of the first group
  double seconds = 0;
  bool skipped = false, finished = false;
};

struct Evaluation {
  int64_t step = 0;  // of the parameters
  std::string dataset;
  int64_t samples = 0;
  double loss = 0, seconds = 0;
  std::vector<std::pair<std::string, double>> metrics;
};

// Writes the members of the open JSON object.
void write_members(JsonWriter& to, const Evaluation& e);

enum class Resume { kConfig, kNever, kAuto, kMust };

struct Settings {
  std::string run_dir;  // "": a new one
  bool no_files = false;
  Resume resume = Resume::kConfig;
  bool progress = false;
  std::function<bool(const StepResult&)> on_step;  // true: stop after a save
  std::string command;
  std::vector<std::string> overrides;
  std::string resolved_toml;
  runtime::Job job;  // the job and this rank in it; a single rank by default
};

// Owner thread only, except cancel(). Where several ranks train together, each has its own session,
// and all ranks make the same calls in the same order; a host then feeds the samples of its rank to
// step().
class Session {
 public:
  Session(std::shared_ptr<const plan::Plan> plan, Settings settings, Log& log, FileSystem& files);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  StepResult step();  // the next batch of [data.train]
  StepResult step(const std::vector<HostField>& fields);
  StepResult run();  // to the end; see trainer.cpp
  Evaluation evaluate(const std::string& dataset, int64_t max_batches = 0);  // 0: all of it
  // Computes the rows of a named value for the host's samples. bytes = samples * row size.
  void predict(const std::vector<HostField>& fields, const std::string& value, void* out,
               uint64_t bytes);
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  // path "": into the run directory. Returns the checkpoint's path.
  std::string save(const std::string& path);
  void load(const std::string& path);
  void load_parameters(const std::string& path);  // only parameters and their step

  void read(const std::string& parameter, void* data, uint64_t bytes);
  void write(const std::string& parameter, const void* data, uint64_t bytes);
  // The host may change parameters: they may then differ from the last checkpoint.
  void modified() { resumed_from_.clear(); }
  const plan::Parameter& parameter(const std::string& name) const;  // throws with the nearest name
  const std::shared_ptr<runtime::Arena>& arena() const { return executor_.arena(); }
  char* address(plan::BufferRef at) const { return executor_.address(at); }
  bool host_visible() const { return executor_.device().info().host_visible != 0; }
  std::string describe() const;
  const plan::Plan& plan() const { return *plan_; }

 private:
  friend class Trainer;
  // Runs a collective call: if it fails on this rank, the other ranks are told at once.
  template <class Do>
  auto on_all_ranks(const char* what, Do&& call) -> decltype(call());
  // The same for calls that the ranks do not make at the same time.
  template <class Do>
  auto abort_on_error(const char* what, Do&& call) -> decltype(call());
  [[noreturn]] void throw_on_all_ranks(const char* what, const Error& e);
  void initialize_parameters();
  void load_weights(const config::ModelConfig& model);
  void resume();
  std::unique_ptr<checkpoint::Checkpoint> open_files();
  checkpoint::RunState state() const;
  void save_in_background();
  void wait_for_save();
  data::DataLoader& train_loader();
  StepResult run_step(int64_t epoch, int64_t samples);
  // A step in two parts, so that an asynchronous device can have the next step while the host waits
  // for the results of this one.
  void launch_next();
  void launch_step(int64_t epoch, int64_t samples, int64_t next_batch);
  StepResult finish_step();
  int64_t in_flight() const { return launched_ - step_; }
  bool may_run_ahead() const { return executor_.device().records(); }
  // Finishes the step in flight before parameters are accessed; the next step() returns its
  // result.
  void drain();
  Evaluation evaluate_shard(const plan::Dataset& dataset, int64_t max_batches);
  void launch_evaluation(Feeder& feeder);
  void sum_over_replicas(std::vector<double>& totals);
  void write_scalars();
  void write_updates();
  void read_results(StepResult& result);
  void compare_identities();
  void guard_numerics(const StepResult& result, const Feeder::OutOfRange& outside);
  [[noreturn]] void fail_numerics(const StepResult& result, const std::string& saved);
  std::string out_of_range_text(const Feeder::OutOfRange& found, const std::string& source,
                                const std::string& where) const;
  void fail_out_of_range(const std::string& own);
  bool has_zero_weight() const;
  std::string first_non_finite();
  std::unique_ptr<checkpoint::Checkpoint> open_on_all_ranks(const std::string& path);
  std::vector<std::pair<plan::BufferRef, std::vector<char>>> read_blocks(
      const checkpoint::Checkpoint& c, bool parameters_only);
  void check_compatibility(const checkpoint::Checkpoint& c, bool parameters_only) const;
  void warn_of_differences(const checkpoint::RunState& s, const std::string& path) const;
  void restore(const checkpoint::Checkpoint& c);
  void begin_lineage();

  std::shared_ptr<const plan::Plan> plan_;
  Settings settings_;
  Log& log_;
  FileSystem& files_;
  RankContext ranks_;
  int64_t step_ = 0;  // number of steps made; used in messages while the executor opens
  runtime::Executor executor_;
  Schedules schedules_;
  Feeder train_feeder_;
  std::optional<data::DataLoader> train_loader_;
  std::unique_ptr<RunFiles> run_files_;  // null with no_files
  bool keeps_files_ = false;             // rank 0 has run_files_
  // A step that has been launched and not finished.
  struct Launched {
    int64_t epoch = 0,
            next_batch = -1;  // next_batch: the loader's next batch; -1: the host fed the batch
    uint64_t start_ns = 0, results = 0;  // results: number of the download
    Feeder::OutOfRange outside =
        {};  // of its batch; the next batch may be staged before its results arrive
  };
  Launched launches_[2];
  int64_t launched_ = 0;                        // the last launched step
  uint64_t finished_ns_ = 0;                    // end of the last step
  bool looks_ahead_ = false;                    // inside run(): steps may be launched ahead
  std::optional<StepResult> drained_;           // result that the next step() returns
  std::optional<runtime::Uploads> numbers_;     // step sums and scalars of a step
  std::optional<runtime::Downloads> outcomes_;  // its results
  HostBuffer scalars_, results_;                // of Plan::scalars and Plan::results
  HostBuffer step_sums_;                        // of Plan::step_sums
  int64_t updates_ = 0;                         // number of steps that were applied
  int64_t samples_ = 0;
  int64_t next_batch_ = 0;
  int64_t consecutive_skipped_ = 0;
  std::string lineage_;                        // see checkpoint::RunState
  int64_t lineage_from_ = 0;                   // the step where it begins
  std::string resumed_from_;                   // a checkpoint of this run, until parameters change
  double best_ = 0;                            // of early stopping
  int64_t evaluations_without_gain_ = -1;      // -1: none yet
  std::optional<Evaluation> last_evaluation_;  // none since the last load
  bool running_ = false;                       // inside run()
  bool stop_agreed_ = false;                   // a rank requested a stop in the last step
  std::atomic<bool> cancelled_{false};
  ControlCollectives background_collectives_;  // of the thread of background_saver_
  std::unique_ptr<char[]> save_buffer_;        // the copy that it writes
  BackgroundSaver background_saver_;           // last: it must end before the others
};

template <class Do>
auto Session::on_all_ranks(const char* what, Do&& call) -> decltype(call()) {
  ranks_.begin_call(what);
  return abort_on_error(what, std::forward<Do>(call));
}

template <class Do>
auto Session::abort_on_error(const char* what, Do&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const CollectiveError&) {
    throw;
  } catch (const Error& e) {
    if (ranks_.is_single()) throw;
    throw_on_all_ranks(what, e);
  } catch (const std::bad_alloc&) {
    ranks_.abort_job("out of memory");  // short enough to need no allocation
    throw;
  } catch (const std::exception& e) {
    ranks_.abort_job(std::string(what) + ": " + e.what());
    throw;
  }
}

}  // namespace plait::session

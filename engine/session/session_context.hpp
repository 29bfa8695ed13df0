// What all parts of a session use: the plan, the ranks, the executor, and the state of training.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/plan/plan.hpp"
#include "engine/runtime/executor.hpp"
#include "engine/session/normalizer.hpp"
#include "engine/session/rank_context.hpp"
#include "engine/session/rank_log.hpp"
#include "engine/session/rank_metrics.hpp"
#include "engine/session/run_files.hpp"
#include "engine/session/settings.hpp"

namespace plait::session {

// What a checkpoint keeps besides tensors and settings.
struct TrainingState {
  int64_t step = 0;     // number of steps made
  int64_t updates = 0;  // number of steps that were applied, and updates_before
  // Updates that the optimizer's states have seen before step 0 (run.from without the position).
  int64_t updates_before = 0;
  int64_t updates_taken = 0;  // of the checkpoint that was read last, also by run.from
  // The same of adapters that samples choose, of those steps that had a sample: as in Plan::step
  // behind the first.
  std::vector<int64_t> adapter_updates = {};
  int64_t samples = 0;
  int64_t tokens = 0;
  int64_t next_batch = 0;
  int64_t consecutive_skipped = 0;
  // The first three numbers of Plan::scaler behind the last step; unused where nothing is scaled.
  std::array<double, 3> loss_scale{};
  std::string lineage;                    // see checkpoint::RunState
  int64_t lineage_from = 0;               // the step where it begins
  double best = 0;                        // of early stopping
  int64_t evaluations_without_gain = -1;  // -1: none yet
  // The evaluation whose checkpoint is kept; step -1: none yet.
  struct Best {
    std::string metric;
    double value = 0;
    int64_t step = -1;
  } kept;
  std::string resumed_from;  // a checkpoint of this run, until parameters change

  // The host may change parameters: they may then differ from the last checkpoint.
  void modified() { resumed_from.clear(); }
  // Begins a lineage: from here on checkpoints belong together; existing ones of a higher step
  // become stale.
  void begin_lineage();
};

// Owner thread only, except `cancelled` and the ends of views.
struct SessionContext {
  // Meets the other ranks, and opens the device. Errors: as RankContext and Executor.
  SessionContext(std::shared_ptr<const plan::Plan> plan, Settings settings, Log& log,
                 FileSystem& files);
  SessionContext(const SessionContext&) = delete;
  SessionContext& operator=(const SessionContext&) = delete;

  // Runs a collective call: if it fails on this rank, the other ranks are told at once.
  template <class Do>
  auto on_all_ranks(const char* what, Do&& call) -> decltype(call());
  // The same for calls that the ranks do not make at the same time.
  template <class Do>
  auto abort_on_error(const char* what, Do&& call) -> decltype(call());
  // Tells the metrics of the run and of this rank that steps continue behind TrainingState::step.
  void resume_metrics();
  // Throws PLAIT_ERR_CONFIG where the plan only generates.
  void need_data(const char* what) const;
  // Parameters were changed, but not by an update: their low copies are made again before the next
  // launch that may read them.
  void parameters_changed() { ++own_writes_; }
  // The memory of parameters is handed to the host, which may change it until the last copy of
  // what is returned is gone; that may be on any thread, and after the session.
  std::shared_ptr<void> share_parameters();
  void refresh_low() {
    if (!refresh_low_) return;
    const auto [shared, writes] = parameter_writes();
    if (!shared && low_writes_ == writes) return;
    make_copies(*refresh_low_);
    low_writes_ = writes;
  }
  // What was computed from the parameters holds as long as these stay equal; nullopt: it never
  // does.
  struct ParameterVersion {
    int64_t step = 0;
    uint64_t writes = 0;
    bool operator==(const ParameterVersion&) const = default;
  };
  std::optional<ParameterVersion> parameter_version() const {
    const auto [shared, writes] = parameter_writes();
    if (shared) return std::nullopt;
    return ParameterVersion{state.step, writes};
  }
  // The int8 weights of generation, before tokens. With ZeRO 3 all ranks gather for them, so they
  // agree: the host of one may have a view of a parameter.
  void refresh_int8() {
    if (!quantize_) return;
    const auto now = parameter_version();
    const bool stale = !now || int8_version_ != now;
    if (plan.zero < 3 ? !stale : !on_any_rank(stale)) return;
    make_copies(*quantize_);
    int8_version_ = now;
  }
  // Whether something is so on any rank; inside a collective call.
  bool on_any_rank(bool own);
  bool host_visible() const { return executor.device().info().host_visible != 0; }

  const std::shared_ptr<const plan::Plan> owned_plan;
  const plan::Plan& plan;
  Settings settings;
  Log& log;
  FileSystem& files;
  RankLog rank_log;  // before all that writes to the log
  RankContext ranks;
  // Before the executor, which may fail as it opens: record_calls() reads them.
  std::string folder;  // the run directory, the whole path; "" until rank 0 has one
  std::unique_ptr<RankMetrics> rank_metrics;  // of the ranks that write some
  TrainingState state;                        // its step is in messages while the executor opens
  runtime::Executor executor;
  Normalizer normalizer;
  std::unique_ptr<RunFiles> run_files;  // null with no_files
  bool keeps_files = false;             // rank 0 has run_files
  bool running = false;                 // inside run()
  // How the newest run() ended, if what it has trained could not be saved; step -1: it was saved.
  struct Unsaved {
    int64_t step = -1;
    uint64_t bytes = 0;  // of the checkpoint, all ranks' parts
  } unsaved;
  std::atomic<bool> cancelled{false};

 private:
  // Views of parameters, by whether their deleter has run. Each may have been written through.
  struct Views {
    std::atomic<uint64_t> live{0}, gone{0};
  };
  struct Writes {
    bool shared;     // more may come at any time
    uint64_t count;  // updates are not counted
  };
  Writes parameter_writes() const;
  void make_copies(const plan::EntryPoint& entry);
  const plan::EntryPoint *refresh_low_, *quantize_;  // null: there are no copies
  std::shared_ptr<Views> views_ = std::make_shared<Views>();
  uint64_t own_writes_ = 0;  // but for those through views
  uint64_t low_writes_ = 0;  // parameter_writes() when the low copies were made
  std::optional<ParameterVersion> int8_version_;  // that the int8 weights were made of
  [[noreturn]] void throw_on_all_ranks(const char* what, const Error& e);
  void abort_job(const std::string& text) noexcept;
};

template <class Do>
auto SessionContext::on_all_ranks(const char* what, Do&& call) -> decltype(call()) {
  ranks.begin_call(what);
  return abort_on_error(what, std::forward<Do>(call));
}

template <class Do>
auto SessionContext::abort_on_error(const char* what, Do&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const CollectiveError&) {
    throw;
  } catch (const Error& e) {
    if (ranks.is_single()) throw;
    throw_on_all_ranks(what, e);
  } catch (const std::bad_alloc&) {
    abort_job("out of memory");  // short enough to need no allocation
    throw;
  } catch (const std::exception& e) {
    abort_job(std::string(what) + ": " + e.what());
    throw;
  }
}

}  // namespace plait::session

#include "engine/session/session_context.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/session/calls_record.hpp"

namespace plait::session {

void TrainingState::begin_lineage() {
  lineage = checkpoint::unique_id();
  lineage_from = step;
}

SessionContext::SessionContext(std::shared_ptr<const plan::Plan> given, Settings wanted, Log& to,
                               FileSystem& on)
    : owned_plan(std::move(given)),
      plan(*owned_plan),
      settings(std::move(wanted)),
      log(to),
      files(on),
      rank_log(plan, log),
      ranks(owned_plan, settings, log),
      executor(abort_on_error(
          "opening the session",
          [this] {
            const plugin::JobScope scope(runtime::place_of(settings.job));
            return runtime::Executor(
                owned_plan,
                [this](const runtime::Device& device) { return ranks.connect(device, log); },
                [this](const std::string& text) { return ranks.all_gather(text); });
          })),
      normalizer(plan, executor, log),
      refresh_low_(plan.find_entry_point(plan::kRefreshLow)),
      quantize_(plan.find_entry_point(plan::kQuantize)) {
  const config::PrecisionConfig& p = plan.experiment.precision;
  state.loss_scale = {p.scale_initial, 0, static_cast<double>(p.scale_hysteresis)};
  log.debug([this] {
    const std::string device = executor.device().summary();
    return "[session] device '" + plan.device + "'" + (device.empty() ? "" : " (" + device + ")") +
           " holds " + human_bytes(executor.bytes()) +
           strf(", %zu kernels are prepared, %zu graphs captured", executor.prepared_kernels(),
                executor.graphs());
  });
}

std::shared_ptr<void> SessionContext::share_parameters() {
  views_->live.fetch_add(1);
  return {static_cast<void*>(views_.get()), [views = views_](void*) {
            views->gone.fetch_add(1);
            views->live.fetch_sub(1);
          }};
}

// `live` is read first: a view that it does not count is in `gone`.
SessionContext::Writes SessionContext::parameter_writes() const {
  const bool shared = views_->live.load() > 0;
  return {shared, own_writes_ + views_->gone.load()};
}

void SessionContext::make_copies(const plan::EntryPoint& entry) {
  for (const auto& group : executor.launches(entry)) executor.launch(group);
}

bool SessionContext::on_any_rank(bool own) {
  if (ranks.is_single()) return own;
  const std::vector<std::string> all = ranks.all_gather(own ? "yes" : "");
  return std::any_of(all.begin(), all.end(), [](const std::string& one) { return !one.empty(); });
}

void SessionContext::resume_metrics() {
  if (run_files) run_files->metrics().resume(state.step, unix_seconds());
  if (rank_metrics) rank_metrics->resume(state.step);
}

void SessionContext::need_data(const char* what) const {
  if (plan.experiment.generate.only)
    fail_config(std::string("[session] ") + what +
                ": the plan generates and nothing else; leave out generate.only");
}

void SessionContext::throw_on_all_ranks(const char* what, const Error& e) {
  try {
    const std::string where =
        strf("[session] %s failed in step %ld", what, static_cast<long>(state.step + 1));
    // The others first: the disk may hang.
    ranks.tell_others(where, e);
    // Before the reason is known, for what started this process may end it now.
    // In run() rank 0 logs the error with the run's status.
    const bool tells = !ranks.is_leader() || !running;
    if (tells) rank_log.error(where + "\n" + e.full_text());
    try {
      ranks.throw_with_reason(where, e);
    } catch (const Error& told) {
      record_calls(*this, e.full_text());
      if (tells && told.text() != e.text()) rank_log.error(told.text());
      throw;
    }
  } catch (const std::bad_alloc&) {
    abort_job("out of memory");  // as in abort_on_error(); without effect where others were told
    throw;
  }
}

void SessionContext::abort_job(const std::string& text) noexcept {
  ranks.abort_job(text);
  record_calls(*this, text);
}

}  // namespace plait::session

#include "engine/session/rank_context.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/session/identity.hpp"
#include "engine/session/usable_backends.hpp"

namespace plait::session {

void fail_collective(uint32_t code, std::string text) {
  throw CollectiveError(code, std::move(text));
}

RankContext::RankContext(std::shared_ptr<const plan::Plan> plan, const Settings& settings, Log& log)
    : plan_(std::move(plan)),
      rank_(plan_->rank),
      size_(plan_->grid.ranks()),
      control_(connect_control(settings, log)),
      collectives_(collectives("session")) {}

// Null where there is one rank.
std::unique_ptr<runtime::Control> RankContext::connect_control(const Settings& settings,
                                                               Log& log) const {
  if (size_ == 1) return nullptr;
  const runtime::Job& job = settings.job;
  if (job.size != size_ || job.rank != rank_)
    fail(
        PLAIT_ERR_STATE,
        strf(
            "[session] the plan is that of rank %d of %d, the session was opened as rank %d of %d; "
            "start as many ranks as [topology] asks for (plait run does), and make the plan "
            "with plait_plan_make_for() and the rank's job",
            rank_, size_, job.rank, job.size));
  const topology::Coordinates c = plan_->at;
  runtime::ControlConfig config;
  config.job = job;
  const config::TopologyConfig& otherwise = plan_->experiment.topology;
  if (job.timeout == 0) config.job.timeout = otherwise.timeout;
  if (job.connect_timeout == 0) config.job.connect_timeout = otherwise.connect_timeout;
  config.name =
      strf("rank %d (pipeline %d, data %d, tensor %d)", rank_, c.pipeline, c.data, c.tensor);
  config.identity = identity_of(*plan_);
  config.identity.emplace_back("step to stop after", std::to_string(settings.stop_after));
  try {
    const Stopwatch watch;
    auto control = std::make_unique<runtime::Control>(config, log);
    log.debug([&] {
      std::set<std::string> hosts;
      for (const runtime::Peer& peer : control->peers()) hosts.insert(peer.host);
      return "[session] " + config.name +
             strf(" has met all %d ranks, on %zu machine%s, after ", size_, hosts.size(),
                  hosts.size() == 1 ? "" : "s") +
             duration_text(watch.seconds());
    });
    return control;
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_PEER) throw;
    fail(e.code(), "[session] rendezvous with the other ranks failed: " + without_part(e.text()));
  }
}

RankContext::~RankContext() { disconnect(); }

void RankContext::disconnect() noexcept {
  if (communicators_ && device_->given_up())
    runtime::Communicators::abandon(std::move(communicators_));
  communicators_.reset();
  device_.reset();
}

// Different devices compute different bits, so replicated parameters would diverge.
void RankContext::compare_devices(const runtime::Device& device) {
  const std::vector<std::string> all = all_gather(device.identity());
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      fail_collective(PLAIT_ERR_PEER, "[session] the ranks' devices differ: rank 0 has '" + all[0] +
                                          "', rank " + std::to_string(r) + " '" + all[r] +
                                          "'; run all ranks on equal devices and libraries");
}

runtime::Communicators* RankContext::connect(const runtime::Device& device, Log& log) {
  if (is_single()) return nullptr;
  device_ = device.shared_from_this();
  const Stopwatch watch;
  communicators_ = std::make_unique<runtime::Communicators>(
      plan_, *control_, device_,
      unusable_backends(*plan_, *control_, collectives_, device.host_visible(), log));
  const auto groups = communicators_->connected();
  for (const auto& g : groups)
    log.debug([&] {
      return strf("[session] %s: %d ranks exchange over %s", g.group.c_str(), g.ranks,
                  g.backend.c_str());
    });
  log.debug([&] {
    return strf("[session] %zu group%s connected after ", groups.size(),
                groups.size() == 1 ? " is" : "s are") +
           duration_text(watch.seconds());
  });
  return communicators_.get();
}

void RankContext::begin_call(const char* what) noexcept {
  if (control_) control_->begin_call(what);
}

void RankContext::at_step(int64_t step) noexcept {
  if (control_) control_->at_step(step);
}

void RankContext::abort_job(const std::string& text) noexcept {
  if (control_) control_->abort(text);
}

// Why the job is over, "" when nobody knows, not even a heartbeat later. A collective that
// failed knows only the rank it waited for; the control channel knows which rank is silent.
std::string RankContext::end_reason() const {
  if (!control_) return "";
  const double heartbeat = std::min(1.0, control_->timeout() / 4);
  const Stopwatch watch;
  for (;;) {
    std::string reason = control_->end_reason();
    if (!reason.empty() || watch.seconds() > heartbeat) return reason;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

namespace {
const Error& last_cause(const Error& e) { return e.cause() ? last_cause(*e.cause()) : e; }

// The chain, but for an end that only says `reason` again.
std::shared_ptr<const Error> without(const Error& e, const std::string& reason) {
  if (!e.cause() && e.text().find(reason) != std::string::npos) return nullptr;
  return std::make_shared<const Error>(e.code(), e.text(),
                                       e.cause() ? without(*e.cause(), reason) : nullptr);
}
}  // namespace

void RankContext::tell_others(const std::string& where, const Error& e) noexcept {
  if (e.code() == PLAIT_ERR_PEER) return;
  try {
    abort_job(where + ": " + e.full_text());
  } catch (const std::bad_alloc&) {
    abort_job("out of memory");
  }
}

void RankContext::throw_with_reason(const std::string& where, const Error& e) {
  if (e.code() != PLAIT_ERR_PEER) throw e;
  std::string reason = end_reason();
  if (reason.empty()) {
    reason = last_cause(e).text();
    abort_job(where + ": " + reason);
  }
  throw Error(PLAIT_ERR_PEER, where + ": " + reason, without(e, reason));
}

}  // namespace plait::session

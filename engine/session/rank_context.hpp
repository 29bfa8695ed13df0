// The other ranks of the job, as a session sees them. A session alone has one rank, for which
// everything here is trivial.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/log.hpp"
#include "engine/plan/plan.hpp"
#include "engine/runtime/communicators.hpp"
#include "engine/runtime/control.hpp"
#include "engine/runtime/device.hpp"
#include "engine/runtime/job.hpp"
#include "engine/session/control_collectives.hpp"
#include "engine/session/settings.hpp"

namespace plait::session {

// An error that all ranks come to together, and each of them throws: nobody need be told.
class CollectiveError : public Error {
 public:
  using Error::Error;
};
[[noreturn]] void fail_collective(uint32_t code, std::string text);

// Owner thread only.
class RankContext {
 public:
  // Meets the other ranks and connects the groups that the plan needs. settings: whose job it is,
  // and what else must be equal on all ranks. Errors: as Control and Communicators.
  RankContext(std::shared_ptr<const plan::Plan> plan, const Settings& settings, Log& log);
  ~RankContext();
  RankContext(const RankContext&) = delete;
  RankContext& operator=(const RankContext&) = delete;

  bool is_single() const { return !control_; }
  bool is_leader() const {
    return rank_ == 0;
  }  // rank 0: writes the run's files, decides what is decided once
  int32_t rank() const { return rank_; }
  int32_t size() const { return size_; }

  // Connects the groups, once the device is known. nullptr when there is nothing to exchange.
  runtime::Communicators* connect(const runtime::Device& device, Log& log);
  // Of all ranks, which have met. Errors: PLAIT_ERR_PEER naming two devices that differ.
  void compare_devices(const runtime::Device& device);

  runtime::Communicators* communicators() const { return communicators_.get(); }

  // Of the calls that all ranks make in the same order.
  ControlCollectives& collectives() { return collectives_; }
  std::string broadcast(const std::string& text) { return collectives_.broadcast(text); }
  std::vector<std::string> all_gather(const std::string& text) {
    return collectives_.all_gather(text);
  }
  // Collectives independent of those, for another thread, which must be done with them before this
  // object goes.
  ControlCollectives collectives(std::string name) const {
    return {control_.get(), std::move(name), rank_, size_};
  }

  // Leaves the groups: nothing is in flight in memory of the device after this. The groups of a
  // device that was given up are aborted and kept, because its work refers to them.
  void disconnect() noexcept;
  void at_step(int64_t step) noexcept;
  // A call begins that all ranks make; what: a literal.
  void begin_call(const char* what) noexcept;
  // This rank can't go on: the others need not wait for it.
  void abort_job(const std::string& text) noexcept;
  // Tells the others what has failed here, unless it is that another rank is gone. Does not wait.
  // `where`: "[session] step failed in step 7".
  void tell_others(const std::string& where, const Error& e) noexcept;
  // Throws what has failed here, behind tell_others(): as it is, or, if another rank is gone, with
  // the reason why the job is over, for which it waits a heartbeat. The others are then told, too,
  // if nobody knows the reason.
  [[noreturn]] void throw_with_reason(const std::string& where, const Error& e);

 private:
  std::unique_ptr<runtime::Control> connect_control(const Settings& settings, Log& log) const;
  std::string end_reason() const;

  std::shared_ptr<const plan::Plan> plan_;
  int32_t rank_, size_;
  std::unique_ptr<runtime::Control> control_;
  ControlCollectives collectives_;
  std::shared_ptr<const runtime::Device> device_;  // closes after the groups
  std::unique_ptr<runtime::Communicators> communicators_;
};

}  // namespace plait::session

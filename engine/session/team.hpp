// The other ranks of the job, as a session sees them. A session alone has a team of one, for which everything here is trivial.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/log.hpp"
#include "engine/plan/plan.hpp"
#include "engine/runtime/communicators.hpp"
#include "engine/runtime/control.hpp"
#include "engine/runtime/job.hpp"
#include "engine/session/rounds.hpp"

namespace plait::session {

// An error that all ranks come to together, and each of them throws: nobody need be told.
class Agreed : public Error {
 public:
  using Error::Error;
};
[[noreturn]] void fail_agreed(uint32_t code, std::string text);

// Owner thread only.
class Team {
 public:
  // Meets the other ranks and connects the groups that the plan needs. Errors: those of Control and Communicators.
  Team(std::shared_ptr<const plan::Plan> plan, const runtime::Job& job, Log& log);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  bool alone() const { return !control_; }
  bool leads() const {
    return rank_ == 0;
  }  // rank 0: writes the run's files, decides what is decided once
  int32_t rank() const { return rank_; }
  int32_t size() const { return size_; }

  // Connects the groups, once the device is known. nullptr when there is nothing to exchange.
  runtime::Communicators* connect(bool host_memory);

  runtime::Communicators* communicators() const { return communicators_.get(); }

  // Of the calls that all ranks make in the same order.
  Rounds& calls() { return calls_; }
  std::string from_leader(const std::string& text) { return calls_.from_leader(text); }
  std::vector<std::string> from_all(const std::string& text) { return calls_.from_all(text); }
  // Rounds apart from those, for another thread, which must be done with them before this object goes.
  Rounds rounds(std::string name) const { return {control_.get(), std::move(name), rank_, size_}; }

  // Leaves the groups: nothing is under way in memory of the device after this.
  void disconnect() noexcept { communicators_.reset(); }
  void at_step(int64_t step) noexcept;
  // A call begins that all ranks make; what: a literal.
  void in_call(const char* what) noexcept;
  // This rank can't go on: the others need not wait for it.
  void give_up(const std::string& text) noexcept;
  // Throws what has failed here: with the reason why the job is over if another rank is that, else as it is, when the others have
  // been told. `where`: "[session] step failed in step 7".
  [[noreturn]] void fail_together(const std::string& where, const Error& e);

 private:
  std::unique_ptr<runtime::Control> meet(const runtime::Job& job, Log& log) const;
  std::string end_reason() const;

  std::shared_ptr<const plan::Plan> plan_;
  int32_t rank_, size_;
  std::unique_ptr<runtime::Control> control_;
  Rounds calls_;
  std::unique_ptr<runtime::Communicators> communicators_;
};

}  // namespace plait::session

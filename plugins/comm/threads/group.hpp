// One rank's end of a group of threads, as plait::comm() of comm.hpp wants it.
#pragma once

#include <plait/comm.h>

#include <memory>
#include <plait/plugin.hpp>
#include <string_view>
#include <thread>

#include "plugins/comm/threads/group_state.hpp"

namespace plait::comm_threads {

class ProcessGroup {
 public:
  class Call {
   public:
    Call(ProcessGroup& group, const plait_comm_desc& desc);
    ~Call() { group_.state_->cancel(call_); }
    void start(plait_queue*) { group_.state_->start(call_, group_.timeout_); }
    void finish(plait_queue*) { group_.state_->finish(call_); }

   private:
    ProcessGroup& group_;
    PendingCall call_;
  };

  ProcessGroup(const Host& host, const Options&, const plait_comm_setup& setup);
  ~ProcessGroup();
  void abort(std::string_view text) noexcept { state_->abort(text); }

 private:
  const comm_support::Members members_;
  const double timeout_;
  const std::shared_ptr<GroupState> state_;
  std::thread thread_;
};

}  // namespace plait::comm_threads

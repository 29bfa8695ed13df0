// shm: the ranks of one machine, processes or threads, communicate through shared memory.
#include <cstring>
#include <optional>
#include <plait/plugin.hpp>

#include "plugins/comm/call.hpp"
#include "plugins/comm/shm/call_executor.hpp"
#include "plugins/comm/shm/free_memory.hpp"

namespace plait::comm_shm {
namespace {

class ProcessGroup {
 public:
  class Call {
   public:
    Call(ProcessGroup& group, const plait_comm_desc& desc)
        : endpoint_(group.endpoint_),
          desc_(comm_support::checked(endpoint_.members(), desc)),
          text_(endpoint_.members().describe_call(desc_)) {
      if (endpoint_.is_single()) return;
      executor_ = &*group.executor_;
      call_ = executor_->prepare(desc_, text_);
    }
    ~Call() {
      if (started_)
        endpoint_.fail_all(endpoint_.members().head() + ": " +
                           endpoint_.members().names[endpoint_.members().rank] + " destroyed " +
                           text_ + " before it finished");
    }
    void start(plait_queue*) {
      endpoint_.check();
      if (started_) fail(PLAIT_ERR_STATE, out_of_order("started again before finish(); finish it"));
      if (call_) executor_->start(*call_);
      started_ = true;
    }
    void finish(plait_queue*) {
      if (!started_) fail(PLAIT_ERR_STATE, out_of_order("finished without start(); start it"));
      started_ = false;
      endpoint_.check();
      if (call_)
        executor_->finish(*call_);
      else if (desc_.in != desc_.out && comm_support::bytes_of(desc_) > 0)
        std::memcpy(desc_.out, desc_.in, comm_support::bytes_of(desc_));
    }

   private:
    std::string out_of_order(const char* what) const {
      return endpoint_.members().head() + ": " + text_ + " is " + what + " first";
    }
    GroupEndpoint& endpoint_;
    const plait_comm_desc desc_;
    const std::string text_;
    bool started_ = false;
    CallExecutor* executor_ = nullptr;
    std::unique_ptr<comm_shm::CallState> call_;  // NULL in a group of one
  };

  ProcessGroup(const Host& host, const Options&, const plait_comm_setup& setup)
      : host_(host), endpoint_(host, setup) {
    if (!endpoint_.is_single()) executor_.emplace(endpoint_);
  }
  static void probe(const Host&, const Options&, const plait_comm_needs& needs) {
    check_shared_memory(needs);
  }
  static SharedMemory shared_memory(const Host&, const Options&, const plait_comm_needs& needs) {
    return {shared_bytes(needs), free_memory(needs.ranks).bytes};
  }
  void* memory(uint64_t bytes) {
    endpoint_.check();
    return executor_ ? executor_->memory(host_, bytes) : nullptr;
  }
  void abort(std::string_view text) noexcept { endpoint_.abort(text); }

 private:
  const Host host_;
  GroupEndpoint endpoint_;
  std::optional<CallExecutor> executor_;
};

}  // namespace
}  // namespace plait::comm_shm

PLAIT_PLUGIN("comm-shm", PLAIT_VERSION, "Apache-2.0",
             "Communication through shared memory between the ranks of one machine") {
  static const auto shm = plait::comm<plait::comm_shm::ProcessGroup>(
      "shm", "shared memory between ranks of one machine", PLAIT_COMM_REACH_HOST, nullptr);
  host.add(shm);
}

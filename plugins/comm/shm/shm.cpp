// shm: ranks of one machine, processes or threads of one, exchange through memory they share.
#include <cstring>
#include <optional>
#include <plait/plugin.hpp>

#include "plugins/comm/call.hpp"
#include "plugins/comm/shm/exchange.hpp"

namespace plait::comm_shm {
namespace {

class Group {
 public:
  class Call {
   public:
    Call(Group& group, const plait_comm_desc& desc)
        : end_(group.end_),
          desc_(comm_support::checked(end_.members(), desc)),
          text_(end_.members().describe_call(desc_)) {
      if (end_.alone()) return;
      exchange_ = &*group.exchange_;
      call_ = exchange_->prepare(desc_, text_);
    }
    ~Call() {
      if (started_)
        end_.fail_all(end_.members().head() + ": " + end_.members().names[end_.members().rank] +
                      " gave up " + text_ + " before its end");
    }
    void start(plait_queue*) {
      end_.check();
      if (started_) fail(PLAIT_ERR_STATE, out_of_order("started again before finish(); finish it"));
      if (call_) exchange_->start(*call_);
      started_ = true;
    }
    void finish(plait_queue*) {
      if (!started_) fail(PLAIT_ERR_STATE, out_of_order("finished without start(); start it"));
      started_ = false;
      end_.check();
      if (call_)
        exchange_->finish(*call_);
      else if (desc_.in != desc_.out && comm_support::bytes_of(desc_) > 0)
        std::memcpy(desc_.out, desc_.in, comm_support::bytes_of(desc_));
    }

   private:
    std::string out_of_order(const char* what) const {
      return end_.members().head() + ": " + text_ + " is " + what + " first";
    }
    End& end_;
    const plait_comm_desc desc_;
    const std::string text_;
    bool started_ = false;
    Exchange* exchange_ = nullptr;
    std::unique_ptr<comm_shm::Call> call_;  // NULL in a group of one
  };

  Group(const Host& host, const Options&, const plait_comm_setup& setup)
      : host_(host), end_(host, setup) {
    if (!end_.alone()) exchange_.emplace(end_);
  }
  void* memory(uint64_t bytes) {
    end_.check();
    return exchange_ ? exchange_->memory(host_, bytes) : nullptr;
  }
  void abort(std::string_view text) noexcept { end_.abort(text); }

 private:
  const Host host_;
  End end_;
  std::optional<Exchange> exchange_;
};

}  // namespace
}  // namespace plait::comm_shm

PLAIT_PLUGIN("comm-shm", PLAIT_VERSION, "Apache-2.0",
             "Communication through shared memory between the ranks of one machine") {
  static const auto shm = plait::comm<plait::comm_shm::Group>(
      "shm", "shared memory between ranks of one machine", PLAIT_COMM_REACH_HOST, nullptr);
  host.add(shm);
}

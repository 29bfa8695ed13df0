// gloo: ranks communicate over TCP with Debian's libgloo, on one machine or several.
#include <exception>
#include <map>
#include <new>
#include <plait/plugin.hpp>

#include "kit/serial_worker.hpp"
#include "plugins/comm/call.hpp"
#include "plugins/comm/gloo/collectives.hpp"
#include "plugins/comm/gloo/rendezvous.hpp"
#include "plugins/comm/gloo/sigpipe.hpp"
#include "plugins/support/thread.hpp"

namespace plait::comm_gloo {
namespace {

using comm_support::Members;

constexpr plait_option kOptions[] = {
    opt_text(
        "interface", "\"\"",
        "network interface to listen on; empty: loopback on one machine, else the interface of "
        "the route to the other machines"),
};

constexpr auto kPollInterval =
    std::chrono::milliseconds(20);  // between two polls of the peers while waiting

class ProcessGroup {
 public:
  class Call;

  ProcessGroup(const Host& host, const Options& options, const plait_comm_setup& setup)
      : members_("gloo", setup), timeout_(setup.timeout) {
    const SigpipeBlock block;
    links_ =
        rendezvous(members_, host, Store(host, setup.store), std::string(options.text("interface")),
                   setup.connect_timeout, setup.timeout);
  }
  ~ProcessGroup() {
    workers_.clear();
    const SigpipeBlock block;
    links_->send_goodbye();
  }
  void abort(std::string_view text) noexcept {
    try {
      links_->fail_all(std::string(text));
    } catch (const std::bad_alloc&) {
      links_->fail_all({});
    }
  }

 private:
  // Created when the first call with that peer and direction is prepared.
  kit::SerialWorker& worker_of(const plait_comm_desc& desc) {
    const bool message = comm_support::point_to_point(desc.kind);
    const auto key = message ? std::pair{desc.kind, desc.peer} : std::pair{0u, 0u};
    return support::with_threads(members_.head(),
                                 [&]() -> kit::SerialWorker& { return workers_[key]; });
  }

  const Members members_;
  const double timeout_;
  std::unique_ptr<PeerLinks> links_;
  std::map<std::pair<uint32_t, uint32_t>, kit::SerialWorker> workers_;
};

class ProcessGroup::Call : private kit::SerialWorker::Task {
 public:
  Call(ProcessGroup& group, const plait_comm_desc& desc)
      : group_(group),
        desc_(comm_support::checked(group.members_, desc)),
        what_(group.members_.describe_call(desc_)),
        scratch_(scratch_bytes(desc_, group.members_.size)),
        worker_(group.worker_of(desc_)) {}
  ~Call() override {
    if (!started_) return;
    group_.links_->fail_all(group_.members_.head() + ": " + what_ +
                            " was destroyed before it finished");
    while (!worker_.wait(*this, kPollInterval)) {
    }
  }

  void start(plait_queue*) {
    if (started_)
      fail(PLAIT_ERR_STATE, group_.members_.head() + ": " + what_ +
                                " is started again before finish(); finish it first");
    if (group_.links_->failed()) group_.links_->throw_failure();
    deadline_ = after(group_.timeout_);
    error_ = nullptr;
    started_ = true;
    worker_.push(*this);
  }

  void finish(plait_queue*) {
    if (!started_)
      fail(PLAIT_ERR_STATE,
           group_.members_.head() + ": " + what_ + " is finished without start(); start it first");
    while (!worker_.wait(*this, kPollInterval)) group_.links_->wake();
    started_ = false;
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void run(uint64_t number) noexcept override {
    try {
      if (group_.links_->failed()) group_.links_->throw_failure();
      execute({*group_.links_, desc_, what_, number, deadline_}, scratch_);
    } catch (const Error&) {
      error_ = std::current_exception();
    } catch (const std::bad_alloc&) {
      run_out_of_memory();
    } catch (const std::exception& e) {
      try {
        const std::string text = group_.members_.head() + ": " + what_ + " failed: " + e.what();
        error_ = std::make_exception_ptr(Error(PLAIT_ERR_PEER, text));
        group_.links_->fail_all(text);
      } catch (const std::bad_alloc&) {
        run_out_of_memory();
      }
    }
  }
  // Other ranks wait for data that this rank cannot send. Only inside a catch block.
  void run_out_of_memory() noexcept {
    error_ = std::current_exception();
    group_.links_->fail_all("out of memory");  // short enough to need no allocation
  }

  ProcessGroup& group_;
  const plait_comm_desc desc_;
  const std::string what_;
  std::vector<char> scratch_;
  kit::SerialWorker& worker_;
  Clock::time_point deadline_;
  bool started_ = false;
  std::exception_ptr error_;  // of the last execution
};

}  // namespace
}  // namespace plait::comm_gloo

PLAIT_PLUGIN("comm-gloo", PLAIT_VERSION, "Apache-2.0", "Communication over TCP with Gloo") {
  static const auto gloo = plait::comm<plait::comm_gloo::ProcessGroup>(
      "gloo", "TCP between processes, on one machine or many", PLAIT_COMM_REACH_NETWORK, nullptr,
      plait::comm_gloo::kOptions);
  host.add(gloo);
}

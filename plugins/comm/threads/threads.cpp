// threads: the ranks of a group are threads of one process, and exchange through the memory they share. For tests, notebooks and
// thread sanitizers.
#include <unistd.h>

#include <charconv>
#include <map>
#include <plait/plugin.hpp>
#include <random>
#include <thread>

#include "plugins/comm/call.hpp"
#include "plugins/comm/threads/hub.hpp"

namespace plait::comm_threads {
namespace {

using comm_support::Members;

// The hubs of this process, by number: rank 0 makes one and lays its number down in the store for the others. A number, and no
// address, because a rank may come when rank 0 has given up already.
class Meetings {
 public:
  static Meetings& of_process() {
    static Meetings meetings;
    return meetings;
  }
  std::string add(const std::shared_ptr<Hub>& hub) {
    const std::lock_guard lock(mutex_);
    std::erase_if(hubs_, [](const auto& entry) { return entry.second.expired(); });
    hubs_.emplace(++last_, hub);
    return process() + std::to_string(last_);
  }
  // NULL: the hub has gone. Throws PLAIT_ERR_PEER when it belongs to another process.
  std::shared_ptr<Hub> find(const std::string& text, const Members& who) {
    const std::lock_guard lock(mutex_);
    const std::string here = process();
    if (!text.starts_with(here))
      fail(PLAIT_ERR_PEER, who.head() + ": " + who.names[0] + " and " + who.names[who.rank] +
                               " run in different processes, expected threads of one; choose "
                               "another topology.comm");
    uint64_t number = 0;
    std::from_chars(text.data() + here.size(), text.data() + text.size(), number);
    const auto found = hubs_.find(number);
    return found == hubs_.end() ? nullptr : found->second.lock();
  }

 private:
  // Process ids repeat on other machines and in containers; the number drawn at random does not.
  std::string process() const {
    return std::to_string(getpid()) + "/" + std::to_string(drawn_) + "/";
  }
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<Hub>> hubs_;
  uint64_t last_ = 0;
  const uint64_t drawn_ = (uint64_t{std::random_device()()} << 32) | std::random_device()();
};

std::shared_ptr<Hub> meet(const Host& host, const Members& who, const plait_comm_setup& setup) {
  if (who.size == 1) return std::make_shared<Hub>(who);
  const Store store(host, setup.store);
  if (who.rank == 0) {
    auto hub = std::make_shared<Hub>(who);
    store.set("threads", Meetings::of_process().add(hub));
    return hub;
  }
  const std::string missed =
      who.head() + " did not come about; missing: " + who.names[0] + "; look whether it runs";
  auto hub = Meetings::of_process().find(store.get("threads", missed), who);
  if (!hub)
    fail(PLAIT_ERR_PEER, who.head() + ": " + who.names[0] + " has given the group up before " +
                             who.names[who.rank] + " came; see what it says");
  return hub;
}

class Group {
 public:
  class Call {
   public:
    Call(Group& group, const plait_comm_desc& desc)
        : group_(group), call_(make(group, comm_support::checked(group.members_, desc))) {
      group.hub_->reserve();
    }
    ~Call() { group_.hub_->forget(call_); }
    void start(plait_queue*) { group_.hub_->start(call_, group_.timeout_); }
    void finish(plait_queue*) { group_.hub_->finish(call_); }

   private:
    static comm_threads::Call make(const Group& group, const plait_comm_desc& desc) {
      return {group.members_.rank, desc, group.members_.describe_call(desc), group.members_.size};
    }
    Group& group_;
    comm_threads::Call call_;
  };

  Group(const Host& host, const Options&, const plait_comm_setup& setup)
      : members_("threads", setup), timeout_(setup.timeout), hub_(meet(host, members_, setup)) {
    hub_->join(members_);
    try {
      hub_->wait_for_all(members_, setup.connect_timeout);
      thread_ = std::thread([hub = hub_, rank = members_.rank] { hub->work(rank); });
    } catch (...) {
      hub_->leave(members_.rank);
      throw;
    }
  }
  ~Group() {
    hub_->leave(members_.rank);
    thread_.join();
  }
  void abort(std::string_view text) noexcept { hub_->abort(text); }

 private:
  const Members members_;
  const double timeout_;
  const std::shared_ptr<Hub> hub_;
  std::thread thread_;
};

}  // namespace
}  // namespace plait::comm_threads

PLAIT_PLUGIN("comm-threads", PLAIT_VERSION, "Apache-2.0",
             "Communication between ranks that are threads of one process") {
  static const auto threads = plait::comm<plait::comm_threads::Group>(
      "threads", "ranks are threads of one process", PLAIT_COMM_REACH_PROCESS, nullptr);
  host.add(threads);
}

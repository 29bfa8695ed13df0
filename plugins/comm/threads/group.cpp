#include "plugins/comm/threads/group.hpp"

#include <unistd.h>

#include <charconv>
#include <map>
#include <random>

#include "plugins/comm/call.hpp"
#include "plugins/support/thread.hpp"

namespace plait::comm_threads {
namespace {

using comm_support::Members;

// The hubs of this process, by number: rank 0 makes one and lays its number down in the store for
// the others. A number, and no address, because a rank may come when rank 0 has given up already.
class GroupRegistry {
 public:
  static GroupRegistry& of_process() {
    static GroupRegistry meetings;
    return meetings;
  }
  std::string add(const std::shared_ptr<GroupState>& state) {
    const std::lock_guard lock(mutex_);
    std::erase_if(groups_, [](const auto& entry) { return entry.second.expired(); });
    groups_.emplace(++last_, state);
    return process() + std::to_string(last_);
  }
  // NULL: the group is gone. Throws PLAIT_ERR_PEER when it belongs to another process.
  std::shared_ptr<GroupState> find(const std::string& text, const Members& who) {
    const std::lock_guard lock(mutex_);
    const std::string here = process();
    if (!text.starts_with(here))
      fail(PLAIT_ERR_PEER, who.head() + ": " + who.names[0] + " and " + who.names[who.rank] +
                               " run in different processes, expected threads of one; choose "
                               "another topology.backend");
    uint64_t number = 0;
    std::from_chars(text.data() + here.size(), text.data() + text.size(), number);
    const auto found = groups_.find(number);
    return found == groups_.end() ? nullptr : found->second.lock();
  }

 private:
  // Process ids repeat on other machines and in containers; the number drawn at random does not.
  std::string process() const {
    return std::to_string(getpid()) + "/" + std::to_string(drawn_) + "/";
  }
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<GroupState>> groups_;
  uint64_t last_ = 0;
  const uint64_t drawn_ = (uint64_t{std::random_device()()} << 32) | std::random_device()();
};

std::shared_ptr<GroupState> meet(const Host& host, const Members& who,
                                 const plait_comm_setup& setup) {
  if (who.size == 1) return std::make_shared<GroupState>(who);
  const Store store(host, setup.store);
  if (who.rank == 0) {
    auto state = std::make_shared<GroupState>(who);
    store.set("threads", GroupRegistry::of_process().add(state));
    return state;
  }
  const std::string missed =
      who.head() + " did not connect; missing: " + who.names[0] + "; check that it is running";
  auto state = GroupRegistry::of_process().find(store.get("threads", missed), who);
  if (!state)
    fail(PLAIT_ERR_PEER, who.head() + ": " + who.names[0] + " has given the group up before " +
                             who.names[who.rank] + " came; see its error");
  return state;
}

PendingCall make(const Members& members, const plait_comm_desc& desc) {
  return {members.rank, desc, members.describe_call(desc), members.size};
}

}  // namespace

ProcessGroup::Call::Call(ProcessGroup& group, const plait_comm_desc& desc)
    : group_(group), call_(make(group.members_, comm_support::checked(group.members_, desc))) {
  group.state_->reserve();
}

ProcessGroup::ProcessGroup(const Host& host, const Options&, const plait_comm_setup& setup)
    : members_("threads", setup), timeout_(setup.timeout), state_(meet(host, members_, setup)) {
  state_->join(members_);
  try {
    state_->wait_for_all(members_, setup.connect_timeout);
    thread_ = support::start_thread(
        members_.head(), [state = state_, rank = members_.rank] { state->run_worker(rank); });
  } catch (...) {
    state_->leave(members_.rank);
    throw;
  }
}

ProcessGroup::~ProcessGroup() {
  state_->leave(members_.rank);
  thread_.join();
}

}  // namespace plait::comm_threads

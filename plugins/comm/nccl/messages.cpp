#include "plugins/comm/nccl/messages.hpp"
#include "plugins/support/thread.hpp"

#include <algorithm>

namespace plait::comm_nccl {
namespace {

Clock::duration duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

MessageLink::MessageLink(const Communicator::Shared& shared, const comm_support::Members& members,
                         const Host& host, const Store& store, uint32_t kind, uint32_t peer,
                         double connect_timeout)
    : shared_(shared),
      members_(members),
      store_(store),
      kind_(kind),
      peer_(peer),
      connect_timeout_(connect_timeout),
      communicator_(shared) {
  const CurrentContext context(shared.context);
  byte_ = std::make_unique<DeviceMemory>(1);
  thread_ = support::start_thread(members_.head(), [this, host] { connect(host); });
}

MessageLink::~MessageLink() { thread_.join(); }

// The sender makes the id.
ncclUniqueId MessageLink::exchange_id() {
  const bool sends = kind_ == PLAIT_COMM_SEND;
  const uint32_t from = sends ? members_.rank : peer_, to = sends ? peer_ : members_.rank;
  const std::string key = "nccl.message." + std::to_string(from) + "." + std::to_string(to);
  ncclUniqueId id{};
  if (sends) {
    if (const ncclResult_t r = shared_.nccl.ncclGetUniqueId(&id); r != ncclSuccess)
      fail(code_of(r), shared_.head + ": making an id failed: " + result_text(shared_.nccl, r));
    store_.set(key, {id.internal, sizeof id.internal});
    return id;
  }
  const std::string missed = shared_.head + ": no messages from " + members_.names[peer_] +
                             ", which has not connected; see its error";
  constexpr double kLook = 0.05;  // seconds after which the group may have been closed
  for (const auto deadline = Clock::now() + duration(connect_timeout_); Clock::now() < deadline;) {
    shared_.failure.check();
    const auto text = store_.get_within(key, std::min(kLook, connect_timeout_), missed);
    if (!text) continue;
    text->copy(id.internal, sizeof id.internal);
    return id;
  }
  fail(PLAIT_ERR_PEER, missed);
}

void MessageLink::connect(const Host& host) noexcept {
  try {
    const ncclUniqueId id = exchange_id();
    const auto deadline = Clock::now() + duration(connect_timeout_);
    const bool sends = kind_ == PLAIT_COMM_SEND;
    const std::string late = shared_.head + ": messages " + (sends ? "to " : "from ") +
                             members_.names[peer_] + " did not connect in time; see its error";
    communicator_.connect(id, sends ? 0 : 1, 2, deadline, late);
    const CurrentContext context(shared_.context);
    communicator_.exchange_first(deadline, late, [&](ncclComm_t comm) {
      const CUstream stream = communicator_.stream();
      return sends ? shared_.nccl.ncclSend(byte_->data(), 1, ncclUint8, 1, comm, stream)
                   : shared_.nccl.ncclRecv(byte_->data(), 1, ncclUint8, 0, comm, stream);
    });
  } catch (const Error& e) {
    // An error of the store belongs to the host.
    if (plait_error* passed = e.take()) {
      shared_.failure.set(host.raw()->error_code(passed), host.raw()->error_text(passed));
      host.raw()->error_free(passed);
    } else {
      shared_.failure.set(e.code(), e.what());
    }
  } catch (const std::exception& e) {
    shared_.failure.set(PLAIT_ERR_INTERNAL, e.what());
  }
  const std::lock_guard lock(mutex_);
  done_ = true;
  ended_.notify_all();
}

Communicator& MessageLink::connected() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, std::chrono::milliseconds(20), [&] { return done_; }))
    shared_.failure.check();
  shared_.failure.check();
  return communicator_;
}

bool MessageLink::settled() {
  const std::lock_guard lock(mutex_);
  return done_;
}

}  // namespace plait::comm_nccl

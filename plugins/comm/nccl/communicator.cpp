#include "plugins/comm/nccl/communicator.hpp"

#include "plugins/support/thread.hpp"

namespace plait::comm_nccl {
namespace {

// How long a thread may be inside NCCL before its communicator is aborted all the same.
constexpr auto kPatience = std::chrono::milliseconds(100);
constexpr auto kLeave = std::chrono::seconds(5);

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace

Communicator::Communicator(const Shared& shared)
    : shared_(shared), handle_(std::make_shared<Handle>(shared.nccl)) {
  const CurrentContext context(shared.context);
  constexpr int kHighest = -1000;  // the driver takes the highest that it has
  check(driver().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, kHighest),
        "creating a stream");
  try {
    ender_ = support::start_thread(shared.head, [handle = handle_] { end_when_asked(*handle); });
  } catch (...) {
    driver().cuStreamDestroy(stream_);
    throw;
  }
}

Communicator::~Communicator() {
  end();
  if (!ended_by(Clock::now() + kLeave)) {
    ender_.detach();
    return;  // the stream may wait for ever
  }
  ender_.join();
  const CurrentContext context(shared_.context, std::nothrow);
  driver().cuStreamDestroy(stream_);
}

void Communicator::connect(const ncclUniqueId& id, uint32_t rank, uint32_t size,
                           Clock::time_point deadline, const std::string& missed) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = shared_.name.c_str();
  if (shared_.most_blocks > 0) config.maxCTAs = shared_.most_blocks;
  const CurrentContext context(shared_.context);
  const SignalBlock signals;  // NCCL starts threads
  ncclResult_t r = enter([&](ncclComm_t) {
    return shared_.nccl.ncclCommInitRankConfig(&handle_->comm, static_cast<int>(size), id,
                                               static_cast<int>(rank), &config);
  });
  for (; r == ncclInProgress; r = state()) {
    shared_.failure.check();
    if (Clock::now() > deadline) fail(PLAIT_ERR_PEER, missed);
    pause();
  }
  if (r == ncclSuccess) {
    connected_.store(true, std::memory_order_release);
    return;
  }
  shared_.failure.check();
  fail(code_of(r), shared_.head + " cannot connect: " + error_text(r) +
                       "; NCCL_DEBUG=INFO (comm.debug = \"info\") shows more");
}

ncclResult_t Communicator::state() noexcept {
  const std::lock_guard lock(handle_->entered);
  {
    const std::lock_guard flags(handle_->mutex);
    if (handle_->aborting) return ncclInternalError;  // NCCL has freed the communicator
  }
  ncclResult_t state = ncclSuccess;
  const ncclResult_t r = shared_.nccl.ncclCommGetAsyncError(handle_->comm, &state);
  return r == ncclSuccess ? state : r;
}

void Communicator::settle(ncclResult_t r, const std::string& what, Clock::time_point deadline) {
  for (; r == ncclInProgress; r = state()) {
    shared_.failure.check();
    if (Clock::now() > deadline) {
      shared_.failure.set(PLAIT_ERR_PEER,
                          shared_.head + ": " + what + " could not be started in time");
      shared_.failure.throw_it();
    }
    pause();
  }
  if (r == ncclSuccess) return;
  shared_.failure.check();  // an abort is the cause, not the result
  fail_with(r, what);
}

void Communicator::wait_for_first(Clock::time_point deadline, const std::string& late) {
  const Event done;
  check(driver().cuEventRecord(done.raw(), stream_), "recording an event");
  for (CUresult r; (r = driver().cuEventQuery(done.raw())) != CUDA_SUCCESS;) {
    if (r != CUDA_ERROR_NOT_READY) check(r, "the first exchange of " + shared_.head);
    shared_.failure.check();
    if (uint32_t code = 0; Clock::now() > deadline)
      fail(PLAIT_ERR_PEER, late);
    else if (const std::string text = fault(code); !text.empty())
      fail(code, shared_.head + ": the first exchange failed: " + text);
    pause();
  }
}

void Communicator::fail_with(ncclResult_t r, const std::string& what) {
  const std::string text = shared_.head + ": " + what + " failed: " + error_text(r);
  shared_.failure.set(code_of(r), text);
  shared_.failure.throw_it();
}

std::string Communicator::error_text(ncclResult_t r) const {
  std::string text = result_text(shared_.nccl, r);
  const char* more = shared_.nccl.ncclGetLastError(handle_->comm);
  if (more && *more) text += ": " + std::string(more);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// Without the lock: a thread may be inside a call that does not return.
std::string Communicator::fault(uint32_t& code) noexcept {
  try {
    ncclResult_t state = ncclSuccess;
    if (!connected_.load(std::memory_order_acquire)) return "";
    ncclResult_t r = shared_.nccl.ncclCommGetAsyncError(handle_->comm, &state);
    if (r == ncclSuccess) r = state;
    if (r == ncclSuccess || r == ncclInProgress) return "";
    // What was connected breaks when the other end does.
    code = r == ncclSystemError ? PLAIT_ERR_PEER : code_of(r);
    return error_text(r);
  } catch (const std::exception&) {
    code = PLAIT_ERR_MEMORY;
    return "out of memory";
  }
}

void Communicator::end() noexcept {
  const std::lock_guard lock(handle_->mutex);
  handle_->aborting = true;
  handle_->changed.notify_all();
}

void Communicator::end_when_asked(Handle& handle) noexcept {
  {
    std::unique_lock lock(handle.mutex);
    handle.changed.wait(lock, [&] { return handle.aborting; });
    if (handle.ended) return;
  }
  bool mine = handle.entered.try_lock_for(kPatience);
  ncclComm_t comm = std::atomic_ref(handle.comm).load(std::memory_order_acquire);
  if (!mine && !comm) {  // a thread creates it just now
    handle.entered.lock();
    mine = true;
    comm = handle.comm;
  }
  // Whoever enters from now on sees that the group has failed. The abort may take long: it waits
  // for graphs, which a thread that wants to enter may be about to close.
  if (mine) handle.entered.unlock();
  if (comm) handle.nccl.ncclCommAbort(comm);
  const std::lock_guard lock(handle.mutex);
  handle.ended = true;
  handle.changed.notify_all();
}

bool Communicator::ended_by(Clock::time_point deadline) noexcept {
  if (abandoned_) return false;
  std::unique_lock lock(handle_->mutex);
  abandoned_ = !handle_->changed.wait_until(lock, deadline, [&] { return handle_->ended; });
  return !abandoned_;
}

void Communicator::finalize() noexcept {
  if (!handle_->comm) return;
  const Clock::time_point deadline = Clock::now() + kLeave;
  ncclResult_t r;
  {
    const std::lock_guard lock(handle_->entered);
    r = shared_.nccl.ncclCommFinalize(handle_->comm);
  }
  for (; r == ncclInProgress && Clock::now() < deadline; r = state()) pause();
  if (r != ncclSuccess) return;  // the destructor aborts
  const std::lock_guard lock(handle_->entered);
  shared_.nccl.ncclCommDestroy(handle_->comm);
  handle_->comm = nullptr;
  const std::lock_guard flags(handle_->mutex);
  handle_->aborting = handle_->ended = true;  // there is nothing left to end
  handle_->changed.notify_all();
}

}  // namespace plait::comm_nccl

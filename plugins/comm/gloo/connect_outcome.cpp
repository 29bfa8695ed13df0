#include "plugins/comm/gloo/connect_outcome.hpp"

#include "plugins/support/thread.hpp"

namespace plait::comm_gloo {
namespace {
constexpr size_t kMaxStatusBytes = 1000;
}

ConnectOutcome::ConnectOutcome(const Host& host, const Store& store, std::string key,
                               std::string_view head)
    : host_(host), store_(store), key_(std::move(key)) {
  try {
    thread_ = support::start_thread(head, [this] { await_status(); });
  } catch (const Error& e) {
    publish(e.what());
    throw;
  }
}

ConnectOutcome::~ConnectOutcome() {
  publish(status_);
  thread_.join();
}

void ConnectOutcome::failed(const std::string& why) noexcept { publish(why); }

std::string ConnectOutcome::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

// If the key is in use, another rank was first and its status is equally valid. After another error
// the other ranks learn of it by their time-outs.
void ConnectOutcome::publish(std::string_view status) noexcept {
  store_.try_set(key_.c_str(), status.substr(0, kMaxStatusBytes));
}

// Without a time limit: the ranks have their own, and the destructor publishes a status.
void ConnectOutcome::await_status() noexcept {
  constexpr double kLook = 1;  // seconds
  std::string status = "no status arrived";
  try {
    std::optional<std::string> found;
    while (!found) found = store_.get_within<kMaxStatusBytes>(key_, kLook, status);
    status = *found;
  } catch (const Error& e) {  // the job has ended
    plait_error* const why = e.take();
    try {
      if (why) status = host_.raw()->error_text(why);
    } catch (const std::bad_alloc&) {
    }
    host_.raw()->error_free(why);
  } catch (const std::bad_alloc&) {
  }
  if (status == kConnected) return;
  const std::lock_guard lock(mutex_);
  reason_ = std::move(status);
  if (on_failure_) on_failure_(reason_);
}

ConnectOutcome::OnFailure::OnFailure(ConnectOutcome& outcome,
                                     std::function<void(const std::string& why)> callback)
    : outcome_(outcome) {
  const std::lock_guard lock(outcome_.mutex_);
  if (!outcome_.reason_.empty()) fail(PLAIT_ERR_PEER, outcome_.reason_);
  outcome_.on_failure_ = std::move(callback);
}

ConnectOutcome::OnFailure::~OnFailure() {
  const std::lock_guard lock(outcome_.mutex_);
  outcome_.on_failure_ = nullptr;
}

}  // namespace plait::comm_gloo

#include "engine/runtime/control/local_control.hpp"

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/control/sockets.hpp"

namespace plait::runtime::control {

LocalControl::LocalControl(std::string name)
    : name_(std::move(name)), termination_([this] {
        const std::lock_guard lock(mutex_);
        changed_.notify_all();
      }) {}

void LocalControl::set(const std::string& key, std::string_view value) {
  if (const EndReason end = termination_.get(); end.code != PLAIT_OK)
    fail(PLAIT_ERR_PEER, "[control] cannot publish '" + key + "': " + end.text);
  const std::lock_guard lock(mutex_);
  if (!values_.emplace(key, value).second)
    fail(PLAIT_ERR_STATE, "[control] cannot publish '" + key + "': the key is already in use");
  changed_.notify_all();
}

std::string LocalControl::get(const std::string& key, double seconds) {
  if (std::optional<std::string> value = get_within(key, seconds)) return *std::move(value);
  fail(PLAIT_ERR_PEER, strf("[control] %s waited %g s for '%s', which no rank has published",
                            name_.c_str(), seconds, key.c_str()));
}

std::optional<std::string> LocalControl::get_within(const std::string& key, double seconds) {
  std::unique_lock lock(mutex_);
  const bool woken = changed_.wait_until(lock, Clock::now() + to_duration(seconds), [&] {
    return values_.contains(key) || termination_.get().code != PLAIT_OK;
  });
  if (const EndReason end = termination_.get(); end.code != PLAIT_OK)
    fail(PLAIT_ERR_PEER, "[control] cannot get '" + key + "': " + end.text);
  if (!woken) return std::nullopt;
  return values_.at(key);
}

void LocalControl::forget(const std::string& key) {
  const std::lock_guard lock(mutex_);
  values_.erase(key);
}

void LocalControl::abort(std::string_view text) noexcept {
  try {
    termination_.set({PLAIT_ERR_PEER, name_ + " aborted: " + std::string(text)});
  } catch (...) {
    termination_.fail();
  }
}

}  // namespace plait::runtime::control

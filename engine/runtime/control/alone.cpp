#include "engine/runtime/control/alone.hpp"

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/control/sockets.hpp"

namespace plait::runtime::control {

Alone::Alone(std::string name)
    : name_(std::move(name)), ending_([this] {
        const std::lock_guard lock(mutex_);
        changed_.notify_all();
      }) {}

void Alone::set(const std::string& key, std::string_view value) {
  if (const End end = ending_.get(); end.code != PLAIT_OK)
    fail(PLAIT_ERR_PEER, "[control] cannot lay down '" + key + "': " + end.text);
  const std::lock_guard lock(mutex_);
  if (!values_.emplace(key, value).second)
    fail(PLAIT_ERR_STATE, "[control] cannot lay down '" + key + "': the key is taken");
  changed_.notify_all();
}

std::string Alone::get(const std::string& key, double seconds) {
  std::unique_lock lock(mutex_);
  const bool woken = changed_.wait_until(lock, Clock::now() + span(seconds), [&] {
    return values_.contains(key) || ending_.get().code != PLAIT_OK;
  });
  if (const End end = ending_.get(); end.code != PLAIT_OK)
    fail(PLAIT_ERR_PEER, "[control] '" + key + "' will not come: " + end.text);
  if (!woken)
    fail(PLAIT_ERR_PEER, strf("[control] %s waited %g s for '%s', which no rank has laid down",
                              name_.c_str(), seconds, key.c_str()));
  return values_.at(key);
}

void Alone::forget(const std::string& key) {
  const std::lock_guard lock(mutex_);
  values_.erase(key);
}

void Alone::give_up(std::string_view text) noexcept {
  try {
    ending_.set({PLAIT_ERR_PEER, name_ + " gave up: " + std::string(text)});
  } catch (const std::exception& e) {
    ending_.fail(e.what());
  }
}

}  // namespace plait::runtime::control

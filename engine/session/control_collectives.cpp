#include "engine/session/control_collectives.hpp"

#include <algorithm>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::session {

std::string ControlCollectives::key(const char* what, int32_t rank) const {
  return strf("%s.%s.%ld.%d", name_.c_str(), what, static_cast<long>(round_), rank);
}

void ControlCollectives::publish(const char* what, const std::string& text) {
  published_.push_back(key(what, rank_));
  control_->set(published_.back(), text);
}

std::string ControlCollectives::broadcast(const std::string& text) {
  if (is_single()) return text;
  ++round_;
  if (is_leader()) {
    publish("leader", text);
    return text;
  }
  return control_->get(key("leader", 0), kTimeout);
}

// A rank's text of this round. waited: seconds of this round so far.
std::string ControlCollectives::text_of(int32_t rank, double seconds, double waited,
                                        const char* advice) const {
  constexpr double kLeast = 1;  // a text that is there needs a moment, too
  try {
    return control_->get(key("all", rank), std::max(seconds - waited, kLeast));
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_PEER || !control_->end_reason().empty()) throw;
    fail(
        PLAIT_ERR_PEER,
        strf("[session] rank %d on %s did not get as far as this rank within %g seconds; it hangs, "
             "or needs longer: %s",
             rank, control_->peers()[static_cast<size_t>(rank)].host.c_str(), seconds, advice));
  }
}

std::vector<std::string> ControlCollectives::all_gather(const std::string& text, double seconds,
                                                        const char* advice) {
  if (is_single()) return {text};
  const Stopwatch watch;
  ++round_;
  publish("all", text);
  std::vector<std::string> texts;
  for (int32_t r = 0; r < size_; ++r)
    texts.push_back(r == rank_ ? text : text_of(r, seconds, watch.seconds(), advice));
  // All ranks have reached this round, so they have read the keys of earlier rounds.
  for (; published_.size() > 1; published_.erase(published_.begin()))
    control_->forget(published_.front());
  return texts;
}

}  // namespace plait::session

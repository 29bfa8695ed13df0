#include "engine/session/control_collectives.hpp"

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

std::vector<std::string> ControlCollectives::all_gather(const std::string& text, double seconds) {
  if (is_single()) return {text};
  ++round_;
  publish("all", text);
  std::vector<std::string> texts;
  for (int32_t r = 0; r < size_; ++r)
    texts.push_back(r == rank_ ? text : control_->get(key("all", r), seconds));
  // All ranks have reached this round, so they have read the keys of earlier rounds.
  for (; published_.size() > 1; published_.erase(published_.begin()))
    control_->forget(published_.front());
  return texts;
}

}  // namespace plait::session

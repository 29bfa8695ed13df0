#include "engine/session/rounds.hpp"

#include "engine/base/text.hpp"

namespace plait::session {
namespace {

// Seconds. Somebody who lives may take long over a checkpoint; who does not ends the job, and with it the waiting.
constexpr double kPatience = 3600;

}  // namespace

std::string Rounds::key(const char* what, int32_t rank) const {
  return strf("%s.%s.%ld.%d", name_.c_str(), what, static_cast<long>(round_), rank);
}

void Rounds::lay_down(const char* what, const std::string& text) {
  laid_down_.push_back(key(what, rank_));
  control_->set(laid_down_.back(), text);
}

std::string Rounds::from_leader(const std::string& text) {
  if (alone()) return text;
  ++round_;
  if (leads()) {
    lay_down("leader", text);
    return text;
  }
  return control_->get(key("leader", 0), kPatience);
}

std::vector<std::string> Rounds::from_all(const std::string& text) {
  if (alone()) return {text};
  ++round_;
  lay_down("all", text);
  std::vector<std::string> texts;
  for (int32_t r = 0; r < size_; ++r)
    texts.push_back(r == rank_ ? text : control_->get(key("all", r), kPatience));
  // All ranks are in this round now: what belongs to those before it, they have read.
  for (; laid_down_.size() > 1; laid_down_.erase(laid_down_.begin()))
    control_->forget(laid_down_.front());
  return texts;
}

}  // namespace plait::session

#include "engine/runtime/launch_marks.hpp"

#include "engine/base/text.hpp"
#include "engine/runtime/queue.hpp"

namespace plait::runtime {

LaunchMarks::LaunchMarks(Queue& queue) : ring_(kMarks) {
  for (Mark& mark : ring_) mark.event = std::make_unique<Event>(queue);
}

LaunchMarks::~LaunchMarks() = default;

void LaunchMarks::begin(const std::string& name) {
  while (size_ > 0 && at(0).event->passed()) {
    oldest_ = (oldest_ + 1) % ring_.size();
    --size_;
  }
  last_ = &name;
  unmarked_.last = ++launches_;
  if (unmarked_.name) return;
  unmarked_.name = &name;
  unmarked_.first = launches_;
}

void LaunchMarks::end() {
  if (size_ == ring_.size()) return;
  Mark& mark = at(size_);
  mark.event->record();
  mark.name = unmarked_.name;
  mark.first = unmarked_.first;
  mark.last = unmarked_.last;
  unmarked_.name = nullptr;
  ++size_;
}

void LaunchMarks::all_ended() {
  size_ = 0;
  unmarked_.name = nullptr;
}

void LaunchMarks::forget_names() {
  all_ended();
  last_ = nullptr;
}

std::string LaunchMarks::unfinished() const {
  for (size_t i = 0; i < size_; ++i)
    if (!at(i).event->passed()) return text(at(i));
  return unmarked_.name ? text(unmarked_) : behind_last();
}

std::string LaunchMarks::awaited() const {
  if (size_ > 0) return text({nullptr, at(0).name, at(0).first, launches_});
  return unmarked_.name ? text(unmarked_) : behind_last();
}

std::string LaunchMarks::behind_last() const {
  const auto n = static_cast<unsigned long>(launches_);
  if (n == 0) return "the copies before its first launch";
  if (!last_) return strf("what follows launch %lu of this session", n);
  return strf("what follows %s (launch %lu of this session)", last_->c_str(), n);
}

std::string LaunchMarks::text(const Mark& mark) {
  const auto first = static_cast<unsigned long>(mark.first),
             others = static_cast<unsigned long>(mark.last - mark.first);
  std::string launch = strf("%s (launch %lu of this session)", mark.name->c_str(), first);
  return others == 0 ? launch : launch + strf(" or one of the %lu launches behind it", others);
}

}  // namespace plait::runtime

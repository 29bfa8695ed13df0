#include "engine/base/call_watch.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/base/thread.hpp"

namespace plait {

constinit thread_local CallMark* t_call_mark = nullptr;

CallMark::CallMark(CallWatch& watch, double limit) noexcept : watch_(watch), limit_(limit) {
  watch_.add(*this);
}
CallMark::~CallMark() { watch_.remove(*this); }

std::unique_ptr<CallMark> CallMark::like_own() {
  if (!t_call_mark) return nullptr;
  return std::make_unique<CallMark>(t_call_mark->watch_, t_call_mark->limit_);
}

CallWatch::~CallWatch() {
  // A fork has no threads but the one that forked: nobody ends the wait of this one there, for
  // which the destructor of its condition would wait.
  if (process_ != 0 && process_ != getpid()) {
    static_cast<void>(own_.release());
    return;
  }
  if (!own_->thread.joinable()) return;
  {
    const std::lock_guard lock(own_->mutex);
    stop_ = true;
  }
  own_->changed.notify_one();
  own_->thread.join();
}

// Without a thread calls are not watched, which is no reason to do nothing at all.
void CallWatch::add(CallMark& mark) noexcept {
  {
    const std::lock_guard lock(own_->mutex);
    mark.after_ = marks_;
    if (marks_) marks_->before_ = &mark;
    marks_ = &mark;
    if (!own_->thread.joinable()) try {
        own_->thread = start_thread([this] { work(); });
        process_ = getpid();
      } catch (const std::exception&) {
        // The next mark tries again.
      }
  }
  own_->changed.notify_one();
}

void CallWatch::remove(CallMark& mark) noexcept {
  const std::lock_guard lock(own_->mutex);
  (mark.before_ ? mark.before_->after_ : marks_) = mark.after_;
  if (mark.after_) mark.after_->before_ = mark.before_;
}

// Between two looks, a small part of the shortest time that counts.
double CallWatch::interval() const {
  constexpr double kMost = 1, kParts = 8, kLeast = 0.005;
  double shortest = first_;
  for (const CallMark* m = marks_; m; m = m->after_)
    if (m->limit_ > 0) shortest = std::min(shortest, m->limit_);
  return std::clamp(shortest / kParts, kLeast, kMost);
}

void CallWatch::work() {
  pthread_setname_np(pthread_self(), "plait-watch");
  std::unique_lock lock(own_->mutex);
  while (!stop_) {
    if (!marks_) {
      own_->changed.wait(lock);
      continue;
    }
    const double pause = interval();
    const Stopwatch slept;
    own_->changed.wait_for(lock, std::chrono::duration<double>(pause));
    if (stop_) break;
    try {
      const std::vector<Line> lines = look(std::min(slept.seconds(), 2 * pause));
      // The sink may take its time, and marks come and go meanwhile.
      lock.unlock();
      for (const Line& line : lines) {
        log_.write(line.late ? PLAIT_LOG_ERROR : PLAIT_LOG_WARN, line.text);
        if (line.late && late_) late_(line.text);
      }
    } catch (const std::exception&) {
      // No memory for a line; the next look tries again.
    }
    if (!lock.owns_lock()) lock.lock();
  }
}

std::vector<CallWatch::Line> CallWatch::look(double seconds) {
  std::vector<Line> lines;
  for (CallMark* m = marks_; m; m = m->after_)
    if (Line line; look_at(*m, seconds, line)) lines.push_back(std::move(line));
  return lines;
}

// Whether there is something to say of a mark, `seconds` after the last look.
bool CallWatch::look_at(CallMark& m, double seconds, Line& line) const {
  const uint64_t entered = m.entered_.load(std::memory_order_relaxed);
  if (!m.call_.load(std::memory_order_relaxed) || entered != m.seen_) {
    m.seen_ = entered;
    m.seconds_ = 0;
    m.next_ = first_;
    m.late_ = false;
    return false;
  }
  m.seconds_ += seconds;
  line.late = m.limit_ > 0 && m.seconds_ >= m.limit_ && !m.late_;
  if (!line.late && m.seconds_ < m.next_) return false;

  struct Reading {
    std::atomic<bool>& flag;
    explicit Reading(std::atomic<bool>& f) : flag(f) {
      flag.store(true, std::memory_order_seq_cst);
    }
    ~Reading() { flag.store(false, std::memory_order_release); }
  };
  {
    const Reading reading(m.reading_);
    const PluginCall* const call = m.call_.load(std::memory_order_seq_cst);
    if (!call || std::string_view(call->kind) == "backend" ||
        m.entered_.load(std::memory_order_relaxed) != m.seen_)
      return false;
    line.text = call->plugin.empty() ? "[plugin] " : "[plugin " + std::string(call->plugin) + "] ";
    line.text += text_of(*call);
  }
  line.text +=
      strf(m.seconds_ < 100 ? " has not returned for %.3g s" : " has not returned for %.0f s",
           m.seconds_);
  if (line.late)
    line.text += strf(
        ", expected at most %g (run.plugin_timeout); it hangs, or needs longer: tell the plugin's "
        "author, or raise run.plugin_timeout",
        m.limit_);
  else
    line.text += "; it hangs, or needs longer (run.plugin_timeout sets a limit)";
  while (m.next_ <= m.seconds_) m.next_ *= 2;
  m.late_ |= line.late;
  return true;
}

}  // namespace plait

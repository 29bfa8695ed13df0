// Which launches of a queue have ended. For messages about a device that hangs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plait::runtime {

class Queue;
class Event;

// A ring of events, one behind each launch. A launch for which the ring has no room shares the
// event of the next one that has. Allocates only when constructed. Owner thread only.
class LaunchMarks {
 public:
  explicit LaunchMarks(Queue& queue);
  ~LaunchMarks();
  LaunchMarks(const LaunchMarks&) = delete;
  LaunchMarks& operator=(const LaunchMarks&) = delete;

  // Around each launch; the name is borrowed.
  void begin(const std::string& name);
  void end();
  // All work of the queue has ended.
  void all_ended();
  // The names of launches go; events that are asked later name none.
  void forget_names();
  // The first launch that has not ended, or what follows the last one:
  // "program update (launch 3 of this session)".
  std::string unfinished() const;
  // What had not ended at the last launch. Asks no event: a device that has failed answers none.
  std::string awaited() const;

  static constexpr size_t kMarks = 32;

 private:
  // Launches [first, last], numbered from 1.
  struct Mark {
    std::unique_ptr<Event> event = nullptr;
    const std::string* name = nullptr;  // of the first
    uint64_t first = 0, last = 0;
  };
  static std::string text(const Mark& mark);
  std::string behind_last() const;
  Mark& at(size_t i) { return ring_[(oldest_ + i) % ring_.size()]; }
  const Mark& at(size_t i) const { return ring_[(oldest_ + i) % ring_.size()]; }

  std::vector<Mark> ring_;
  size_t oldest_ = 0, size_ = 0;
  Mark unmarked_;  // the launches behind the last event; no name: none
  uint64_t launches_ = 0;
  const std::string* last_ = nullptr;
};

}  // namespace plait::runtime

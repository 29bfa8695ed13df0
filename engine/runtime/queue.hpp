// A queue of a device, and the copies that go over it.
#pragma once

#include <plait/device.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/plugin_call.hpp"
#include "engine/runtime/device.hpp"

namespace plait::runtime {

// Owner thread only.
class Queue {
 public:
  explicit Queue(std::shared_ptr<Device> device);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Asked again and again while the host waits for a device that works by itself: it throws when
  // there is nothing to wait for any more, as another rank is lost.
  void watch(std::function<void()> health) { health_ = std::move(health); }

  const Device& device() const { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  plait_queue* raw() const { return queue_; }

  void copy(uint32_t direction, void* to, const void* from, uint64_t bytes);
  // Until all work is done. Errors: those of the work, and of watch().
  void sync();
  // The same for at most so many seconds, without looking at anything else. Returns whether all is
  // done.
  bool idle_within(double seconds) noexcept;

  // Calls a function of the device; `what` is for messages.
  template <class F>
  void call(const char* function, F&& f) const;
  void check(plait_error* e, const std::string& what) const;

 private:
  friend class Event;
  std::shared_ptr<Device> device_;
  plait_queue* queue_ = nullptr;
  plait_event* end_ = nullptr;  // of a device that works by itself
  std::function<void()> health_;
};

template <class F>
void Queue::call(const char* function, F&& f) const {
  if (plait_error* e = try_plugin({device_->plugin(), function, "device", device_->item().name}, f))
    check(e, function);
}

// A point in a queue.
class Event {
 public:
  explicit Event(Queue& queue);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // All that is on the queue by now.
  void record();
  // Until that is done; at once where nothing was recorded. Errors: those of Queue::watch().
  void wait();

 private:
  Queue& queue_;
  plait_event* event_ = nullptr;
  bool recorded_ = false;
};

// Blocks of pinned host memory in turn, from which copies leave while the host fills the next. On a
// device in host memory copies are made from where the data lies. No allocation once it is made.
class Uploads {
 public:
  Uploads(Queue& queue, size_t blocks, uint64_t bytes);
  ~Uploads();  // when the device has them no more
  Uploads(Uploads&&) = default;
  // The next block; waits until the device has it no more.
  void begin();
  // Copies into the block and from there to the device. Borrowed until the queue has run where the
  // device's memory is the host's.
  void write(void* to, const void* from, uint64_t bytes);
  void end();

 private:
  struct Block {
    std::unique_ptr<HostMemory> memory;
    std::unique_ptr<Event> read;
  };
  Queue& queue_;
  std::vector<Block> blocks_;
  size_t block_ = 0;
  uint64_t used_ = 0;
};

// Blocks of pinned host memory in turn, into which results are copied asynchronously.
class Downloads {
 public:
  Downloads(Queue& queue, size_t blocks, uint64_t bytes);
  // Asks for device memory; returns the number of the request. At most `blocks` may be outstanding.
  uint64_t ask(const void* from);
  // What came of a request. Waits. Valid until as many others were asked for as there are blocks.
  const char* get(uint64_t request);

 private:
  struct Block {
    std::unique_ptr<HostMemory> memory;
    std::unique_ptr<Event> written;
  };
  Queue& queue_;
  uint64_t bytes_, asked_ = 0;
  std::vector<Block> blocks_;
};

// Copies of any size, in pieces over two pinned buffers where the device needs those.
class Transfers {
 public:
  explicit Transfers(Queue& queue);
  // Borrowed until the queue has run where the device's memory is the host's, else free at once.
  void write(void* to, const void* from, uint64_t bytes);
  // Waits.
  void read(void* to, const void* from, uint64_t bytes);
  static constexpr uint64_t kPiece = uint64_t{4} << 20;

 private:
  struct Piece {
    std::unique_ptr<HostMemory> memory;
    std::unique_ptr<Event> passed;
  };
  Piece& next();
  Queue& queue_;
  Piece pieces_[2];
  size_t turn_ = 0;
};

}  // namespace plait::runtime

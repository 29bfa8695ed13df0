// A queue of a device, and copies on it.
#pragma once

#include <plait/device.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/plugin_call.hpp"
#include "engine/runtime/device.hpp"
#include "engine/runtime/launch_marks.hpp"

namespace plait::runtime {

// Owner thread only.
class Queue {
 public:
  explicit Queue(std::shared_ptr<Device> device);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Sets a function that is called repeatedly while the host waits for an asynchronous device. It
  // throws to end the waiting, for instance when another rank is lost.
  void watch(std::function<void()> health) { health_ = std::move(health); }
  // Limits each wait for a device that records to so many seconds. A device that takes longer is
  // given up (Device::give_up()): this wait and all that follow are PLAIT_ERR_DEVICE.
  void set_timeout(double seconds) { timeout_ = seconds; }
  double timeout() const { return timeout_; }
  // Around each launch; its name is borrowed until forget_names(), for the message when the device
  // hangs in it.
  void begin_launch(const std::string& name) {
    if (marks_) marks_->begin(name);
  }
  void end_launch() {
    if (marks_) marks_->end();
  }
  void forget_names() {
    if (marks_) marks_->forget_names();
  }

  const Device& device() const { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  plait_queue* raw() const { return queue_; }

  void copy(uint32_t direction, void* to, const void* from, uint64_t bytes);
  // order: PLAIT_QUEUE_AFTER_STREAM or PLAIT_STREAM_AFTER_QUEUE, with a stream of the host.
  // Errors: PLAIT_ERR_UNIMPLEMENTED if the device knows none.
  void order(uint32_t order, void* stream);
  // Calls the function of watch(): a queue that has passed work may have passed over collectives
  // that have failed.
  void check_health() {
    if (end_ && health_) health_();
  }
  // Waits until all work is done. Errors: of the work, and of the function of watch().
  void sync();
  // The same for at most so many seconds and without that function. Returns whether all work is
  // done.
  bool idle_within(double seconds) noexcept;

  // Calls a function of the device; its name and `doing` ("running matmul of fc1") are for
  // messages. Errors: also the reason why a device was given up.
  template <class F>
  void call(const char* function, F&& f) const;
  void check(plait_error* e, const char* function, const std::string& doing) const;

 private:
  friend class Event;
  // Waits until passed() returns true.
  template <class Passed>
  void poll(Passed&& passed);
  [[noreturn]] void fail_late(double seconds);
  std::shared_ptr<Device> device_;
  plait_queue* queue_ = nullptr;
  plait_event* end_ = nullptr;  // only if the device records
  std::function<void()> health_;
  double timeout_ = std::numeric_limits<double>::infinity();
  std::unique_ptr<LaunchMarks> marks_;  // only if the device records
};

template <class F>
void Queue::call(const char* function, F&& f) const {
  device_->require_usable();
  if (plait_error* e = try_plugin({device_->plugin(), function, "device", device_->item().name}, f))
    check(e, function, "");
}

// A point in a queue.
class Event {
 public:
  explicit Event(Queue& queue);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // Records the work that is on the queue now.
  void record();
  // Waits until that work is done; returns at once if nothing was recorded. Errors: see sync().
  void wait();
  // Whether that work is done, or nothing was recorded.
  bool passed() const;

 private:
  Queue& queue_;
  plait_event* event_ = nullptr;
  bool recorded_ = false;
};

// Pinned host memory that a queue copies from or to.
struct PinnedBlock {
  PinnedBlock() = default;
  PinnedBlock(Queue& queue, uint64_t bytes);
  std::unique_ptr<HostMemory> memory;
  std::unique_ptr<Event> copied;  // behind the last copy
};

// A ring of blocks of pinned host memory: the device copies from one while the host fills the next.
// For a device that computes on the host, in host memory, data is copied from where it lies.
// Allocates only when constructed.
class Uploads {
 public:
  Uploads(Queue& queue, size_t blocks, uint64_t bytes);
  ~Uploads();  // waits until the device has read all blocks
  Uploads(Uploads&&) = default;
  // Takes the next block; waits until the device has read it.
  void begin();
  // Copies into the block and, by end(), from there to the device; without blocks `from` is
  // borrowed until the queue is empty. own_lines: `to` is aligned to 64, and no other buffer has
  // any of the bytes behind it up to a multiple of 64. Neighbours of which that is true are one
  // copy, unless both are large.
  void write(void* to, const void* from, uint64_t bytes, bool own_lines = false);
  void end();

 private:
  // What is in the block and not yet on its way.
  struct Part {
    char* to = nullptr;
    uint64_t at = 0, bytes = 0;  // in the block
    bool own_lines = false;
  };
  void send();
  Queue& queue_;
  std::vector<PinnedBlock> blocks_;
  size_t block_ = 0;
  uint64_t used_ = 0;
  Part part_;
};

// A ring of blocks of pinned host memory, into which results are copied asynchronously.
class Downloads {
 public:
  Downloads(Queue& queue, size_t blocks, uint64_t bytes);
  // Requests a copy of device memory; returns its number. At most `blocks` may be outstanding.
  uint64_t ask(const void* from);
  // Waits for a request and returns its data, which is valid for `blocks` further requests. Errors:
  // see sync().
  const char* get(uint64_t request);

 private:
  Queue& queue_;
  uint64_t bytes_, asked_ = 0;
  std::vector<PinnedBlock> blocks_;
};

// Copies of any size: in pieces through two buffers, pinned if the device needs that. A device that
// computes on the host, in host memory, copies them whole.
class Transfers {
 public:
  explicit Transfers(Queue& queue);
  // Without buffers `from` is borrowed until the queue is empty, otherwise for the call.
  void write(void* to, const void* from, uint64_t bytes);
  // Waits.
  void read(void* to, const void* from, uint64_t bytes);
  // Visits device memory in order, in pieces of at most kPiece bytes of host memory, until
  // visit(piece, size) returns false. Waits.
  void each_piece(const void* from, uint64_t bytes,
                  const std::function<bool(const char* piece, uint64_t size)>& visit);
  static constexpr uint64_t kPiece = uint64_t{4} << 20;

 private:
  PinnedBlock& next();
  void each_pinned_piece(const char* from, uint64_t bytes,
                         const std::function<bool(const char* piece, uint64_t size)>& visit);
  Queue& queue_;
  PinnedBlock pieces_[2];
  size_t turn_ = 0;
};

}  // namespace plait::runtime

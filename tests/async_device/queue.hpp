// A queue of the device `async`: a thread of its own, which takes its time; and what it records.
#pragma once

#include <plait/device.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/async_device/memory.hpp"

namespace async_device {

struct Device {
  const plait_host* host = nullptr;
  Memory memory;
  bool pinned_only = false;
  bool extension = false;  // its memory has a DLPack type of its own although it is visible
  bool visible = false;    // its memory is host memory, and it copies any host memory by itself
  bool by_calls = false;
  int64_t delay_us = 0;  // at most, between two pieces of work
  uint32_t seed = 0;
  std::string identity;
  std::string hang;  // while a file of this name exists, no queue begins another piece of work
};

// One piece of work; throws what went wrong.
using Work = std::function<void()>;
using Works = std::vector<Work>;

struct Graph {
  std::shared_ptr<const Works> works;
};

// A count that a queue raises.
class Point {
 public:
  uint64_t next() { return ++asked_; }
  uint64_t asked() const { return asked_; }
  void pass(uint64_t number);
  bool passed(uint64_t number) const;
  void wait(uint64_t number) const;

 private:
  uint64_t asked_ = 0;  // of the host's thread
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t passed_ = 0;
};

// Called by one thread at a time. All throw plait::Error.
class Queue {
 public:
  explicit Queue(Device& device);
  ~Queue();  // runs what is left
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  Device& device() const { return device_; }
  // Behind what is there; while the queue captures, into the record. Work that was recorded runs
  // anew at each launch.
  void put(Work work);
  // Never recorded, and not left out after a failure.
  void put_point(std::shared_ptr<Point> point, uint64_t number);
  void put_wait(std::shared_ptr<Point> point, uint64_t number);
  void copy(uint32_t direction, void* to, const void* from, uint64_t bytes);
  void sync();
  void capture_begin();
  std::unique_ptr<Graph> capture_end();
  void launch(const Graph& graph);
  bool capturing() const { return record_ != nullptr; }

 private:
  struct Item {
    Work work;
    bool always;  // after a failure, too
  };
  void refuse_in_capture(const char* what) const;
  void push(Item item);
  void run();
  void dawdle();
  void work(const Work& work);

  Device& device_;
  std::unique_ptr<Works> record_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool busy_ = false, ended_ = false;
  uint32_t code_ = PLAIT_OK;  // of the first failure, which stays
  std::string failure_;
  std::minstd_rand random_;  // of the thread
  std::thread thread_;
};

}  // namespace async_device

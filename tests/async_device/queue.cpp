#include "tests/async_device/queue.hpp"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <plait/plugin.hpp>

namespace async_device {

void Point::pass(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (passed_ < number) passed_ = number;
  changed_.notify_all();
}

bool Point::passed(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return passed_ >= number;
}

void Point::wait(uint64_t number) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return passed_ >= number; });
}

Queue::Queue(Device& device)
    : device_(device), random_(device.seed + 1), thread_([this] { run(); }) {}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Queue::push(Item item) {
  const std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
  changed_.notify_all();
}

void Queue::put(Work work) {
  if (record_) {
    record_->push_back(std::move(work));
    return;
  }
  push({std::move(work), false});
}

void Queue::put_point(std::shared_ptr<Point> point, uint64_t number) {
  refuse_in_capture("event_record");
  push({[point = std::move(point), number] { point->pass(number); }, true});
}

void Queue::put_wait(std::shared_ptr<Point> point, uint64_t number) {
  refuse_in_capture("event_wait");
  push({[point = std::move(point), number] { point->wait(number); }, true});
}

void Queue::refuse_in_capture(const char* what) const {
  if (record_)
    plait::fail(PLAIT_ERR_STATE, std::string("[async] ") + what +
                                     " while the queue captures: end that capture first");
}

// Most work follows at once, some after a while: whoever does not wait for it is found out.
void Queue::dawdle() {
  while (!device_.hang.empty() && access(device_.hang.c_str(), F_OK) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (device_.delay_us == 0 || random_() % 4 != 0) return;
  const auto us = static_cast<int64_t>(random_() % static_cast<uint32_t>(device_.delay_us));
  std::this_thread::sleep_for(std::chrono::microseconds(us));
}

void Queue::work(const Work& work) {
  uint32_t code = PLAIT_ERR_DEVICE;
  std::string text;
  try {
    return work();
  } catch (const plait::Error& e) {
    code = e.code();
    text = e.what();
    if (plait_error* passed = e.take()) {
      code = device_.host->error_code(passed);
      text = device_.host->error_text(passed);
      device_.host->error_free(passed);
    }
  } catch (const std::exception& e) {
    text = e.what();
  }
  const std::lock_guard lock(mutex_);
  if (code_ != PLAIT_OK) return;
  code_ = code;
  failure_ = text;
}

void Queue::run() {
  for (;;) {
    Item item;
    bool skip;
    {
      std::unique_lock lock(mutex_);
      busy_ = false;
      changed_.notify_all();
      changed_.wait(lock, [&] { return ended_ || !items_.empty(); });
      if (items_.empty()) return;
      item = std::move(items_.front());
      items_.pop_front();
      busy_ = true;
      skip = code_ != PLAIT_OK && !item.always;
    }
    if (skip) continue;
    dawdle();
    work(item.work);
  }
}

void Queue::sync() {
  refuse_in_capture("sync");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return items_.empty() && !busy_; });
  if (code_ != PLAIT_OK) plait::fail(code_, failure_);
}

namespace {

uint64_t sum_of(const void* data, uint64_t bytes) {
  uint64_t sum = 14695981039346656037u;
  for (const auto *at = static_cast<const unsigned char*>(data), *end = at + bytes; at != end; ++at)
    sum = (sum ^ *at) * 1099511628211u;
  return sum;
}

constexpr int kPoison = 0xFB;  // as f32 and f64 a large negative number; nobody computes that

}  // namespace

void Queue::copy(uint32_t direction, void* to, const void* from, uint64_t bytes) {
  const Memory& memory = device_.memory;
  if (direction < PLAIT_COPY_TO_DEVICE || direction > PLAIT_COPY_ON_DEVICE)
    plait::fail(PLAIT_ERR_INVALID, "[async] copy in direction " + std::to_string(direction));
  const bool up = direction == PLAIT_COPY_TO_DEVICE, down = direction == PLAIT_COPY_TO_HOST;
  char* const target = down ? static_cast<char*>(to) : memory.behind(to, bytes, "a copy's target");
  const char* const source =
      up ? static_cast<const char*>(from) : memory.behind(from, bytes, "a copy's source");
  if (bytes == 0) return;
  const void* const host = up ? from : to;
  if (!up && !down) return put([=] { std::memmove(target, source, bytes); });
  if (!device_.visible && memory.is_device(host))
    plait::fail(PLAIT_ERR_INVALID, "[async] the host's end of a copy is an address of the device");
  if (device_.visible || memory.is_pinned(host, bytes)) {
    if (capturing()) return put([=] { std::memcpy(target, source, bytes); });
    if (down) {
      std::memset(target, kPoison, bytes);
      return put([=] { std::memcpy(target, source, bytes); });
    }
    const uint64_t sum = sum_of(source, bytes);
    return put([=] {
      if (sum_of(source, bytes) != sum)
        plait::fail(PLAIT_ERR_DEVICE,
                    "[async] host memory was changed before the queue had copied it: wait for an "
                    "event behind the copy");
      std::memcpy(target, source, bytes);
    });
  }
  if (capturing())
    plait::fail(PLAIT_ERR_INVALID, "[async] a recorded copy needs host memory of host_alloc()");
  if (device_.pinned_only)
    plait::fail(PLAIT_ERR_INVALID, "[async] a copy of pageable host memory (" +
                                       std::to_string(bytes) +
                                       " bytes) would wait for the queue; use host_alloc()");
  sync();
  std::memcpy(target, source, bytes);
}

void Queue::capture_begin() {
  refuse_in_capture("capture_begin");
  record_ = std::make_unique<Works>();
}

std::unique_ptr<Graph> Queue::capture_end() {
  if (!record_) plait::fail(PLAIT_ERR_STATE, "[async] capture_end without capture_begin");
  auto graph = std::make_unique<Graph>();
  graph->works = std::shared_ptr<const Works>(record_.release());
  return graph;
}

void Queue::launch(const Graph& graph) {
  refuse_in_capture("graph_launch");
  push({[this, works = graph.works] {
          for (const Work& one : *works) {
            dawdle();
            one();
          }
        },
        false});
}

}  // namespace async_device

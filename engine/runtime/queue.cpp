#include "engine/runtime/queue.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "engine/base/c_error.hpp"
#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/communicators.hpp"

namespace plait::runtime {

// An error of a collective comes through the device, which is not its cause. Errors of recorded
// work come out of a function that waits.
void Queue::check(plait_error* e, const char* function, const std::string& doing) const {
  if (!e) return;
  if (Communicators::is_collective_error(*e)) throw from_c(e);
  const std::string_view name = function;
  const bool waits = name == "sync" || name == "event_query";
  check_plugin(e, {device_->plugin(), function, "device", device_->item().name},
               doing.empty() && waits && marks_ ? marks_->awaited() : doing);
}

Queue::Queue(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const plait_device_item& item = device_->item();
  call("queue_open", [&] { return item.queue_open(device_->handle(), &queue_); });
  if (!device_->records()) return;
  try {
    call("event_open", [&] { return item.event_open(device_->handle(), &end_); });
    marks_ = std::make_unique<LaunchMarks>(*this);
  } catch (...) {
    if (end_)
      call_plugin_noexcept(device_->host(), {"", "event_close", "device", item.name},
                           [&] { item.event_close(end_); });
    call_plugin_noexcept(device_->host(), {"", "queue_close", "device", item.name},
                         [&] { item.queue_close(queue_); });
    throw;
  }
}

Queue::~Queue() {
  marks_.reset();
  if (device_->keeps(queue_)) {
    device_->keeps(end_);
    return;
  }
  const plait_device_item& item = device_->item();
  if (end_)
    call_plugin_noexcept(device_->host(), {"", "event_close", "device", item.name},
                         [&] { item.event_close(end_); });
  call_plugin_noexcept(device_->host(), {"", "queue_close", "device", item.name},
                       [&] { item.queue_close(queue_); });
}

void Queue::copy(uint32_t direction, void* to, const void* from, uint64_t bytes) {
  call("copy", [&] { return device_->item().copy(queue_, direction, to, from, bytes); });
}

void Queue::order(uint32_t order, void* stream) {
  if (!device_->knows_streams())
    fail(PLAIT_ERR_UNIMPLEMENTED,
         strf("[runtime] device '%s' knows no streams of the host; %s", device_->item().name,
              order == PLAIT_QUEUE_AFTER_STREAM
                  ? "wait until the stream's work is done, then make the next call of the session"
                  : "pass NULL as the stream: the call then waits for the session's own work"));
  call("order", [&] { return device_->item().order(queue_, order, stream); });
}

// Without a pause at first, because most waits are short.
template <class Passed>
void Queue::poll(Passed&& passed) {
  constexpr double kSpin = 20e-6, kLook = 2e-3;
  if (passed()) return;
  const Stopwatch watch;
  double looked = 0;
  while (!passed()) {
    const double now = watch.seconds();
    if (now < kSpin) continue;
    if (now - looked > kLook) {
      looked = now;
      if (health_) health_();  // first: the device may wait for a rank that is lost
      if (now > timeout_) fail_late(now);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(now < 1e-3 ? 10 : 100));
  }
}

void Queue::fail_late(double seconds) {
  const std::string what = marks_ ? marks_->unfinished() : "its work";
  std::string text = strf(
      "[runtime] device '%s' has not finished %s in %.3g seconds, expected at most %g (%s); it "
      "hangs%s, or needs longer: look at the device, or raise run.device_timeout. This session can "
      "only be closed; the memory that the device may still use is kept until the process ends",
      device_->item().name, what.c_str(), seconds, timeout_,
      health_ ? "run.device_timeout + topology.timeout" : "run.device_timeout",
      health_ ? " or waits for a rank that does" : "");
  device_->give_up(text);
  fail(PLAIT_ERR_DEVICE, std::move(text));
}

bool Queue::idle_within(double seconds) noexcept {
  if (!end_) return true;
  try {
    const plait_device_item& item = device_->item();
    call("event_record", [&] { return item.event_record(end_, queue_); });
    for (const Stopwatch watch; watch.seconds() < seconds;) {
      uint32_t done = 0;
      call("event_query", [&] { return item.event_query(end_, &done); });
      if (done) return true;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return false;
  } catch (const std::exception&) {
    return true;  // a device that has failed does no more work
  }
}

void Queue::sync() {
  const plait_device_item& item = device_->item();
  if (end_) {
    call("event_record", [&] { return item.event_record(end_, queue_); });
    poll([&] {
      uint32_t done = 0;
      call("event_query", [&] { return item.event_query(end_, &done); });
      return done != 0;
    });
  }
  call("sync", [&] { return item.sync(queue_); });
  if (marks_) marks_->all_ended();
  check_health();
}

Event::Event(Queue& queue) : queue_(queue) {
  const Device& device = queue.device();
  queue_.call("event_open", [&] { return device.item().event_open(device.handle(), &event_); });
}

Event::~Event() {
  const Device& device = queue_.device();
  if (device.keeps(event_)) return;
  call_plugin_noexcept(device.host(), {"", "event_close", "device", device.item().name},
                       [&] { device.item().event_close(event_); });
}

void Event::record() {
  queue_.call("event_record",
              [&] { return queue_.device().item().event_record(event_, queue_.raw()); });
  recorded_ = true;
}

void Event::wait() {
  if (!recorded_) return;
  queue_.poll([this] { return passed(); });
  recorded_ = false;
}

bool Event::passed() const {
  if (!recorded_) return true;
  uint32_t done = 0;
  queue_.call("event_query", [&] { return queue_.device().item().event_query(event_, &done); });
  return done != 0;
}

PinnedBlock::PinnedBlock(Queue& queue, uint64_t bytes)
    : memory(std::make_unique<HostMemory>(queue.shared_device(), bytes)),
      copied(std::make_unique<Event>(queue)) {}

Uploads::Uploads(Queue& queue, size_t blocks, uint64_t bytes) : queue_(queue) {
  if (!queue.device().records() && queue.device().host_visible()) return;
  for (size_t i = 0; i < blocks; ++i) blocks_.emplace_back(queue, bytes);
}

Uploads::~Uploads() {
  for (PinnedBlock& block : blocks_) try {
      block.copied->wait();
    } catch (const std::exception&) {
      // The error was reported by the call that it concerned.
    }
}

void Uploads::begin() {
  used_ = 0;
  part_ = {};
  if (!blocks_.empty()) blocks_[block_].copied->wait();
}

// A call of the device costs the host microseconds, whatever it copies.
void Uploads::write(void* to, const void* from, uint64_t bytes, bool own_lines) {
  if (blocks_.empty()) return queue_.copy(PLAIT_COPY_TO_DEVICE, to, from, bytes);
  if (bytes == 0) return;
  const HostMemory& block = *blocks_[block_].memory;
  if (used_ + bytes > block.bytes()) fail_internal("[runtime] a block of uploads is too small");
  constexpr uint64_t kLarge = uint64_t{64}
                              << 10;  // the device copies it while the next one is written
  const bool follows = own_lines && part_.own_lines && to == part_.to + (used_ - part_.at);
  if (!follows || (part_.bytes >= kLarge && bytes >= kLarge)) {
    send();
    part_ = {static_cast<char*>(to), used_, 0, own_lines};
  }
  std::memcpy(block.data() + used_, from, bytes);
  part_.bytes = used_ + bytes - part_.at;
  used_ += (bytes + 63) / 64 * 64;
}

void Uploads::send() {
  if (part_.bytes == 0) return;
  queue_.copy(PLAIT_COPY_TO_DEVICE, part_.to, blocks_[block_].memory->data() + part_.at,
              part_.bytes);
  part_ = {};
}

void Uploads::end() {
  if (blocks_.empty()) return;
  send();
  blocks_[block_].copied->record();
  block_ = (block_ + 1) % blocks_.size();
}

Downloads::Downloads(Queue& queue, size_t blocks, uint64_t bytes) : queue_(queue), bytes_(bytes) {
  for (size_t i = 0; i < blocks; ++i) blocks_.emplace_back(queue, bytes);
}

uint64_t Downloads::ask(const void* from) {
  PinnedBlock& block = blocks_[asked_ % blocks_.size()];
  queue_.copy(PLAIT_COPY_TO_HOST, block.memory->data(), from, bytes_);
  block.copied->record();
  return asked_++;
}

const char* Downloads::get(uint64_t request) {
  PinnedBlock& block = blocks_[request % blocks_.size()];
  block.copied->wait();
  queue_.check_health();
  return block.memory->data();
}

Transfers::Transfers(Queue& queue) : queue_(queue) {
  if (!queue.device().records() && queue.device().host_visible()) return;
  for (PinnedBlock& piece : pieces_) piece = PinnedBlock(queue, kPiece);
}

PinnedBlock& Transfers::next() {
  PinnedBlock& piece = pieces_[turn_++ % 2];
  piece.copied->wait();
  return piece;
}

void Transfers::write(void* to, const void* from, uint64_t bytes) {
  if (!pieces_[0].memory) {
    queue_.copy(PLAIT_COPY_TO_DEVICE, to, from, bytes);
    return;
  }
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    const uint64_t size = std::min(kPiece, bytes - at);
    PinnedBlock& piece = next();
    std::memcpy(piece.memory->data(), static_cast<const char*>(from) + at, size);
    queue_.copy(PLAIT_COPY_TO_DEVICE, static_cast<char*>(to) + at, piece.memory->data(), size);
    piece.copied->record();
  }
}

void Transfers::read(void* to, const void* from, uint64_t bytes) {
  if (!pieces_[0].memory) {
    queue_.copy(PLAIT_COPY_TO_HOST, to, from, bytes);
    return queue_.sync();
  }
  char* at = static_cast<char*>(to);
  each_pinned_piece(static_cast<const char*>(from), bytes, [&](const char* piece, uint64_t size) {
    std::memcpy(at, piece, size);
    at += size;
    return true;
  });
}

void Transfers::each_piece(const void* from, uint64_t bytes,
                           const std::function<bool(const char* piece, uint64_t size)>& visit) {
  const char* const begin = static_cast<const char*>(from);
  if (pieces_[0].memory) return each_pinned_piece(begin, bytes, visit);
  queue_.sync();
  for (uint64_t at = 0; at < bytes; at += kPiece)
    if (!visit(begin + at, std::min(kPiece, bytes - at))) return;
}

// The device copies a piece while the previous one is visited.
void Transfers::each_pinned_piece(
    const char* from, uint64_t bytes,
    const std::function<bool(const char* piece, uint64_t size)>& visit) {
  PinnedBlock* before = nullptr;  // the piece that is still to be visited
  uint64_t size_before = 0;
  bool wanted = true;
  const auto finish = [&] {
    if (!before) return;
    before->copied->wait();
    wanted = visit(before->memory->data(), size_before);
  };
  for (uint64_t at = 0; at < bytes && wanted; at += kPiece) {
    const uint64_t size = std::min(kPiece, bytes - at);
    PinnedBlock& piece = next();
    queue_.copy(PLAIT_COPY_TO_HOST, piece.memory->data(), from + at, size);
    piece.copied->record();
    finish();
    before = &piece;
    size_before = size;
  }
  if (wanted) finish();
  queue_.sync();  // reports what went wrong before
}

}  // namespace plait::runtime

#include "plugins/comm/shm/staging_buffers.hpp"

#include <algorithm>
#include <bit>
#include <plait/plugin.hpp>

namespace plait::comm_shm {
namespace {

constexpr uint64_t kExtent = 1024 * 1024;  // small staging buffers share an extent of this size
constexpr uint64_t kSmall = kExtent / 8;
constexpr uint32_t kMaxBuffers = 1 << 20;  // of one rank

// Sizes in steps of an eighth, so that a buffer fits other calls later.
uint64_t rounded_size(uint64_t bytes) {
  const uint64_t step = std::max<uint64_t>(std::bit_floor(bytes) / 8, 4 * kLine);
  return round_up(bytes, step);
}

bool fits(const StagingBuffer& buffer, uint64_t size) {
  return buffer.bytes >= size && buffer.bytes <= 2 * size;
}

}  // namespace

void StagingBuffers::reserve(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t size = rounded_size(bytes);
  if (std::none_of(all_.begin(), all_.end(),
                   [&](const StagingBuffer& buffer) { return fits(buffer, size); }))
    free_list_.push_back(&make(size));
}

StagingBuffer& StagingBuffers::take(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t size = rounded_size(bytes);
  auto best = free_list_.end();
  for (auto i = free_list_.begin(); i != free_list_.end(); ++i) {
    if (fits(**i, size) && (best == free_list_.end() || (*i)->bytes < (*best)->bytes) &&
        (*i)->free())
      best = i;
  }
  if (best == free_list_.end()) return make(size);
  StagingBuffer& buffer = **best;
  free_list_.erase(best);
  return buffer;
}

StagingBuffer& StagingBuffers::make(uint64_t bytes) {
  const auto number = static_cast<uint32_t>(all_.size());
  if (number == kMaxBuffers) fail(PLAIT_ERR_MEMORY, "[shm] too many calls are prepared at once");
  free_list_.reserve(std::bit_ceil(all_.size() + 1));  // give_back() must not fail
  BufferLocation location{0, round_up(bytes, kGranularity), 0, number};
  if (bytes > kSmall) {
    location.extent = file_.grow(location.extent_bytes);
  } else {
    if (extent_ == 0 || used_ + bytes > kExtent) {
      extent_ = file_.grow(kExtent);
      used_ = 0;
    }
    location = {extent_, kExtent, used_, number};
    used_ += round_up(bytes, kLine);
  }
  char* memory = file_.map(location.extent, location.extent_bytes) + location.offset;
  return all_.emplace_back(StagingBuffer{location, bytes, memory});
}

void StagingBuffers::give_back(StagingBuffer& buffer) {
  const std::lock_guard lock(mutex_);
  free_list_.push_back(&buffer);
}

char* StagingBuffers::find(uint32_t rank, const BufferLocation& location, uint64_t bytes) {
  if (location.buffer >= kMaxBuffers)
    fail(PLAIT_ERR_PEER, "[shm] a rank refers to a buffer out of range");
  const std::lock_guard lock(mutex_);
  std::vector<Found>& found = found_[rank];
  if (location.buffer >= found.size()) found.resize(location.buffer + 1);
  Found& buffer = found[location.buffer];
  if (!buffer.memory) {
    if (location.offset % kLine || location.offset > location.extent_bytes)
      fail(PLAIT_ERR_PEER, "[shm] a rank refers to a buffer outside its memory");
    buffer = {file_.map(location.extent, location.extent_bytes) + location.offset,
              location.extent_bytes - location.offset};
  }
  if (bytes > buffer.bytes)
    fail(PLAIT_ERR_PEER, "[shm] a rank refers to a buffer that is too small");
  return buffer.memory;
}

}  // namespace plait::comm_shm

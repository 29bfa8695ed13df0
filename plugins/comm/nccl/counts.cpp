#include "plugins/comm/nccl/counts.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

namespace plait::comm_nccl {
namespace {

constexpr size_t kBlock = 4096, kPair = 64;  // bytes; two calls share no cache line

uint32_t read(uint32_t* count) {
  return std::atomic_ref<uint32_t>(*count).load(std::memory_order_acquire);
}

}  // namespace

Counts::~Counts() {
  for (uint32_t* block : blocks_) driver().cuMemFreeHost(block);
}

bool Counts::under_way(const Slot& slot) {
  const uint32_t ended = read(slot.ended);
  return read(slot.begun) != ended;
}

Counts::Slot* Counts::take_unused(std::string& what) noexcept {
  const std::lock_guard lock(mutex_);
  const auto unused = [](const auto& slot) { return !slot->in_use && !under_way(*slot); };
  const auto found = std::find_if(slots_.begin(), slots_.end(), unused);
  if (found == slots_.end()) return nullptr;
  Slot& slot = **found;
  slot.what = std::move(what);
  slot.under_way = false;
  slot.in_use = true;
  return &slot;
}

Counts::Slot& Counts::take(std::string what) {
  for (;;) {
    if (Slot* slot = take_unused(what)) return *slot;
    std::vector<std::unique_ptr<Slot>> fresh(kBlock / kPair);
    for (auto& slot : fresh) slot = std::make_unique<Slot>();
    void* block = nullptr;
    check(driver().cuMemHostAlloc(&block, kBlock,
                                  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
          "allocating pinned host memory");
    std::memset(block, 0, kBlock);
    for (size_t i = 0; i < fresh.size(); ++i) {
      fresh[i]->begun = reinterpret_cast<uint32_t*>(static_cast<char*>(block) + i * kPair);
      fresh[i]->ended = fresh[i]->begun + 1;
    }
    try {
      const std::lock_guard lock(mutex_);
      slots_.reserve(slots_.size() + fresh.size());
      blocks_.push_back(static_cast<uint32_t*>(block));
      for (auto& slot : fresh) slots_.push_back(std::move(slot));
    } catch (...) {
      driver().cuMemFreeHost(block);
      throw;
    }
  }
}

void Counts::put(Slot& slot) noexcept {
  const std::lock_guard lock(mutex_);
  slot.in_use = false;
}

std::string Counts::begun() const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(slots_.begin(), slots_.end(), [](const auto& slot) {
    return slot->in_use && under_way(*slot);
  });
  try {
    return found == slots_.end() ? "" : (*found)->what;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

std::string Counts::late(double timeout) {
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  for (const auto& slot : slots_) {
    if (!slot->in_use) continue;
    const uint32_t ended = read(slot->ended), begun = read(slot->begun);
    if (begun == ended) {
      slot->under_way = false;
    } else if (!slot->under_way || slot->seen != begun) {
      slot->under_way = true;
      slot->seen = begun;
      slot->since = now;
    } else if (std::chrono::duration<double>(now - slot->since).count() > timeout) {
      return slot->what;
    }
  }
  return "";
}

}  // namespace plait::comm_nccl

// A table from pairs of numbers, filled once and read often: open addressing.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace plait::subword {

template <class Value>
class PairTable {
 public:
  explicit PairTable(size_t expected) : entries_(std::bit_ceil(2 * expected + 2)) {}

  // The first value of a pair stays.
  void add(int32_t left, int32_t right, Value value) {
    if (2 * (n_ + 1) > entries_.size()) grow();
    Entry& entry = entries_[place(key(left, right))];
    if (entry.key != kFree) return;
    entry = {key(left, right), value};
    ++n_;
  }
  const Value* find(int32_t left, int32_t right) const {
    const Entry& entry = entries_[place(key(left, right))];
    return entry.key == kFree ? nullptr : &entry.value;
  }

 private:
  static constexpr uint64_t kFree = ~0ull;
  struct Entry {
    uint64_t key = kFree;
    Value value{};
  };
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // Of the key, or where it would be.
  size_t place(uint64_t key) const {
    const size_t mask = entries_.size() - 1;
    size_t i = (key * 0x9E3779B97F4A7C15ull >> 20) & mask;
    while (entries_[i].key != key && entries_[i].key != kFree) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.key != kFree) entries_[place(entry.key)] = entry;
  }

  std::vector<Entry> entries_;
  size_t n_ = 0;
};

}  // namespace plait::subword

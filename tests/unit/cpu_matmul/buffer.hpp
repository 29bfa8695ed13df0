// Memory of the tests of products.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace plait::cpu::testing {

// 64-byte aligned floats between guards, so that writes outside are detected.
class Buffer {
 public:
  explicit Buffer(int64_t count)
      : count_(static_cast<size_t>(count)), storage_(count_ + 3 * kGuard, kFence) {
    auto address = reinterpret_cast<uintptr_t>(storage_.data() + kGuard);
    offset_ = kGuard + (64 - address % 64) % 64 / sizeof(float);
  }
  float* data() { return storage_.data() + offset_; }
  const float* data() const { return storage_.data() + offset_; }
  size_t size() const { return count_; }
  bool fences_stand() const {
    const auto is_fence = [](float x) { return x == kFence; };
    return std::all_of(storage_.begin(), storage_.begin() + static_cast<ptrdiff_t>(offset_),
                       is_fence) &&
           std::all_of(storage_.begin() + static_cast<ptrdiff_t>(offset_ + count_), storage_.end(),
                       is_fence);
  }
  void fill(std::mt19937& random) {
    std::uniform_real_distribution<float> values(-1.0f, 1.0f);
    for (size_t i = 0; i < count_; ++i) data()[i] = values(random);
  }

 private:
  static constexpr size_t kGuard = 32;
  static constexpr float kFence = 12345.0f;
  size_t count_;
  std::vector<float> storage_;
  size_t offset_;
};

}  // namespace plait::cpu::testing

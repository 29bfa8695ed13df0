#include "engine/session/block_access.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/plan/halves.hpp"
#include "engine/program/op_def.hpp"
#include "kit/ops/halves.hpp"

namespace plait::session {
namespace {

constexpr int64_t kPiece = 1 << 18;  // elements that are joined or split at a time

// The two halves of elements of a block, on the host.
struct HostHalves {
  explicit HostHalves(int64_t n) : high(static_cast<size_t>(n)), low(static_cast<size_t>(n)) {}
  void join(int64_t n, float* to) const {
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) to[i] = kit::join_halves({high[i], low[i]});
  }
  void split(int64_t n, const float* from) {
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const kit::Halves h = kit::split_halves(from[i]);
      high[i] = h.high;
      low[i] = h.low;
    }
  }
  std::vector<uint16_t> high;
  std::vector<int16_t> low;
};

// Where elements from `first` on lie.
plan::BufferRef high_at(const plan::LocalBlock& block, int64_t first) {
  return plan::offset_by(block.at, first, PLAIT_BF16);
}
plan::BufferRef rest_at(const plan::LocalBlock& block, int64_t first) {
  return plan::offset_by(block.rest, plan::rest_entries(first), plan::kRestType);
}

// Calls f(element, count) for pieces of n elements.
template <class F>
void each_piece(int64_t n, const F& f) {
  for (int64_t at = 0; at < n; at += kPiece) f(at, std::min(kPiece, n - at));
}

}  // namespace

void read_block(runtime::Executor& executor, const plan::LocalBlock& block, int64_t first,
                int64_t n, void* to) {
  if (!block.is_split())
    return executor.read(plan::offset_by(block.at, first, block.dtype), to,
                         program::bytes_of(n, block.dtype));
  HostHalves halves(std::min(kPiece, n));
  each_piece(n, [&](int64_t at, int64_t count) {
    const auto size = static_cast<uint64_t>(count);
    executor.read(high_at(block, first + at), halves.high.data(), size * sizeof(uint16_t));
    executor.read(rest_at(block, first + at), halves.low.data(), size * sizeof(int16_t));
    halves.join(count, static_cast<float*>(to) + at);
  });
}

void write_block(runtime::Executor& executor, const plan::LocalBlock& block, int64_t first,
                 int64_t n, const void* from) {
  if (!block.is_split())
    return executor.write(plan::offset_by(block.at, first, block.dtype), from,
                          program::bytes_of(n, block.dtype));
  HostHalves halves(std::min(kPiece, n));
  each_piece(n, [&](int64_t at, int64_t count) {
    const auto size = static_cast<uint64_t>(count);
    halves.split(count, static_cast<const float*>(from) + at);
    executor.write(high_at(block, first + at), halves.high.data(), size * sizeof(uint16_t));
    executor.write(rest_at(block, first + at), halves.low.data(), size * sizeof(int16_t));
    executor.sync();
  });
}

std::function<std::span<const std::byte>()> pieces_of(runtime::Executor& executor,
                                                      const plan::LocalBlock& block) {
  const int64_t n = topology::elements(block.box);
  return [&executor, block, n, at = int64_t{0}, piece = std::vector<std::byte>()]() mutable {
    const int64_t count = std::min(kPiece, n - at);
    if (count == 0) {
      at = 0;
      return std::span<const std::byte>();
    }
    piece.resize(program::bytes_of(count, block.dtype));
    read_block(executor, block, at, count, piece.data());
    at += count;
    return std::span<const std::byte>(piece);
  };
}

}  // namespace plait::session

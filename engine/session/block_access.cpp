#include "engine/session/block_access.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/base/error.hpp"
#include "engine/plan/halves.hpp"
#include "engine/program/elements.hpp"
#include "engine/program/op_def.hpp"
#include "kit/half.hpp"
#include "kit/ops/halves.hpp"

namespace plait::session {
namespace {

constexpr int64_t kPiece = 1 << 18;  // elements that are joined or split at a time

// The two halves of a piece of n elements of a block, on the host.
struct HostHalves {
  explicit HostHalves(int64_t n)
      : high(static_cast<size_t>(std::min(kPiece, n))), low(high.size()) {}
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
void each_piece(int64_t n, const F& f, int64_t piece = kPiece) {
  for (int64_t at = 0; at < n; at += piece) f(at, std::min(piece, n - at));
}

float as_float(uint32_t dtype, const void* data, int64_t i) {
  if (dtype == PLAIT_BF16) return kit::from_bf16(static_cast<const uint16_t*>(data)[i]);
  if (dtype == PLAIT_F16) return kit::from_f16(static_cast<const uint16_t*>(data)[i]);
  return static_cast<float>(program::load_element(dtype, data, i));
}

void store_float(uint32_t dtype, void* data, int64_t i, float v) {
  if (dtype == PLAIT_BF16)
    static_cast<uint16_t*>(data)[i] = kit::to_bf16(v);
  else if (dtype == PLAIT_F16)
    static_cast<uint16_t*>(data)[i] = kit::to_f16(v);
  else
    program::store_element(dtype, data, i, v);
}

// Rows of a quantized block, on the host, as many as a piece holds.
class HostRows {
 public:
  HostRows(runtime::Executor& executor, const plan::LocalBlock& block)
      : executor_(executor),
        at_(*block.numbered),
        dtype_(block.dtype),
        piece_(piece_elements(block, kPiece)) {}

  void read(int64_t first, int64_t n, void* to) {
    each_part(first, n, [&](int64_t row, int64_t rows, int64_t element) {
      executor_.read(numbers_from(row), numbers_.data(), numbers_.size());
      executor_.read(scales_from(row), scales_.data(), scales_.size() * sizeof(float));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < at_.row.columns; ++c)
          store_float(dtype_, to, element + r * at_.row.columns + c,
                      at_.row.weight(numbers_of(r), scales_of(r), c));
    });
  }
  void write(int64_t first, int64_t n, const void* from) {
    std::vector<float> floats(static_cast<size_t>(at_.row.columns));
    each_part(first, n, [&](int64_t row, int64_t rows, int64_t element) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < at_.row.columns; ++c)
          floats[static_cast<size_t>(c)] =
              as_float(dtype_, from, element + r * at_.row.columns + c);
        for (int64_t c = 0; c < at_.row.columns; c += at_.row.part())
          kit::quantize_part(at_.row, floats.data() + c, c,
                             std::min(at_.row.part(), at_.row.columns - c), numbers_of(r),
                             scales_of(r));
      }
      executor_.write(numbers_from(row), numbers_.data(), numbers_.size());
      executor_.write(scales_from(row), scales_.data(), scales_.size() * sizeof(float));
      executor_.sync();
    });
  }

 private:
  // Calls f(first row, how many, their first element among the n).
  template <class F>
  void each_part(int64_t first, int64_t n, const F& f) {
    const int64_t columns = std::max<int64_t>(at_.row.columns, 1);
    if (first % columns != 0 || n % columns != 0)
      fail_internal("[session] a part of a quantized row is read or written");
    each_piece(
        n,
        [&](int64_t element, int64_t count) {
          const int64_t rows = count / columns;
          numbers_.resize(static_cast<size_t>(rows * at_.row.bytes()));
          scales_.resize(static_cast<size_t>(rows * at_.row.floats()));
          f((first + element) / columns, rows, element);
        },
        piece_);
  }
  plan::BufferRef numbers_from(int64_t row) const {
    return plan::offset_by(at_.numbers, row * at_.row.bytes(), PLAIT_U8);
  }
  plan::BufferRef scales_from(int64_t row) const {
    return plan::offset_by(at_.scales, row * at_.row.floats(), PLAIT_F32);
  }
  uint8_t* numbers_of(int64_t r) { return numbers_.data() + r * at_.row.bytes(); }
  float* scales_of(int64_t r) { return scales_.data() + r * at_.row.floats(); }

  runtime::Executor& executor_;
  const plan::NumberedBlock& at_;
  uint32_t dtype_;
  int64_t piece_;
  std::vector<uint8_t> numbers_;
  std::vector<float> scales_;
};

}  // namespace

int64_t piece_elements(const plan::LocalBlock& block, int64_t most) {
  if (!block.numbered) return most;
  const int64_t columns = std::max<int64_t>(block.numbered->row.columns, 1);
  return std::max(most / columns, int64_t{1}) * columns;
}

void read_block(runtime::Executor& executor, const plan::LocalBlock& block, int64_t first,
                int64_t n, void* to) {
  if (block.numbered) return HostRows(executor, block).read(first, n, to);
  if (!block.is_split())
    return executor.read(plan::offset_by(block.at, first, block.dtype), to,
                         program::bytes_of(n, block.dtype));
  HostHalves halves(n);
  each_piece(n, [&](int64_t at, int64_t count) {
    const auto size = static_cast<uint64_t>(count);
    executor.read(high_at(block, first + at), halves.high.data(), size * sizeof(uint16_t));
    executor.read(rest_at(block, first + at), halves.low.data(), size * sizeof(int16_t));
    halves.join(count, static_cast<float*>(to) + at);
  });
}

void write_block(runtime::Executor& executor, const plan::LocalBlock& block, int64_t first,
                 int64_t n, const void* from) {
  if (block.numbered) return HostRows(executor, block).write(first, n, from);
  if (!block.is_split())
    return executor.write(plan::offset_by(block.at, first, block.dtype), from,
                          program::bytes_of(n, block.dtype));
  HostHalves halves(n);
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
  const int64_t n = topology::elements(block.box), most = piece_elements(block, kPiece);
  return [&executor, block, n, most, at = int64_t{0}, piece = std::vector<std::byte>()]() mutable {
    const int64_t count = std::min(most, n - at);
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

// transpose, slice, pad and concat with threads. Elements move and are never converted, so only
// their size matters.
//
// A transpose walks y in tiles of 16 by 16 over the two dims that matter: y's last, and the one
// that is last in x. Where they are the same dim, whole rows are copied.
#include <array>
#include <cstring>

#include "kit/dtype.hpp"
#include "kit/ops/layout.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

constexpr double kNanosecondsPerByte = 0.15;
constexpr int64_t kTile = 16, kStripe = 64;

int num_threads_for(uint32_t threads, const plait_shape& y, int64_t parts) {
  return choose_num_threads(threads, static_cast<double>(kit::bytes(y)) * kNanosecondsPerByte,
                            parts);
}

// to[j * to_row + i] = from[i * from_row + j], i in [0, rows), j in [0, cols): element T.
template <class T>
void turn_tile(const T* from, int64_t from_row, T* to, int64_t to_row, int64_t rows, int64_t cols) {
  if (rows == kTile && cols == kTile) {
    T tile[kTile][kTile];
    for (int64_t i = 0; i < kTile; ++i)
      for (int64_t j = 0; j < kTile; ++j) tile[j][i] = from[i * from_row + j];
    for (int64_t j = 0; j < kTile; ++j) std::memcpy(to + j * to_row, tile[j], sizeof(tile[j]));
  } else {
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows; ++i) to[j * to_row + i] = from[i * from_row + j];
  }
}

// The dims of y that are neither transposed nor copied as a whole, and the two that are.
struct Walk {
  std::vector<int64_t> extents, from, to;  // outer dims: strides in x and y
  int64_t outer = 1;
  int64_t rows = 1, cols = 1;  // tile dims: rows lie along y's last dim, cols along x's last
  int64_t from_row = 0, to_row = 0;
  bool copied = false;  // rows of y are rows of x: `rows` elements each
};

Walk walk_of(const kit::Transpose& t) {
  Walk w;
  const size_t n = t.extents.size();
  std::vector<int64_t> to(n);
  int64_t stride = 1;
  for (size_t i = n; i-- > 0; stride *= t.extents[i]) to[i] = stride;
  size_t transposed = n;  // the dim that is last in x
  for (size_t i = 0; i < n; ++i)
    if (t.strides[i] == 1) transposed = i;
  w.copied = n == 0 || transposed + 1 == n;
  for (size_t i = 0; i < n; ++i) {
    if (i + 1 == n) {
      w.rows = t.extents[i], w.from_row = t.strides[i];
    } else if (i == transposed) {
      w.cols = t.extents[i], w.to_row = to[i];
    } else {
      w.extents.push_back(t.extents[i]), w.from.push_back(t.strides[i]), w.to.push_back(to[i]);
      w.outer *= t.extents[i];
    }
  }
  return w;
}

class CpuTranspose {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const Walk w = walk_of(kit::parse_transpose(d));
    choice.workspace = 0;
    why = w.copied ? "rows copied" : "tiles of 16 by 16";
    if (const int num_threads = num_threads_for(d.threads, d.outputs[0], parts(w)); num_threads > 1)
      why += ", " + std::to_string(num_threads) + " threads";
    return true;
  }
  CpuTranspose(plait_device*, const plait_op_desc& d)
      : w_(walk_of(kit::parse_transpose(d))),
        num_threads_(num_threads_for(d.threads, d.outputs[0], parts(w_))) {
    if (kit::elements(d.outputs[0]) == 0) return;
    switch (kit::dtype_bytes(d.outputs[0].dtype)) {
      case 8:
        part_ = &CpuTranspose::part<uint64_t>;
        break;
      case 4:
        part_ = &CpuTranspose::part<uint32_t>;
        break;
      case 2:
        part_ = &CpuTranspose::part<uint16_t>;
        break;
      default:
        part_ = &CpuTranspose::part<uint8_t>;
    }
  }
  void run(plait_queue*, void* const* operands, void*) const {
    if (!part_) return;
    in_parallel(num_threads_, parts(w_), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) (this->*part_)(operands[0], operands[1], i);
    });
  }

 private:
  // A part is one outer position and one stripe of tiles along x's last dim: wide enough that
  // reading a row of it is worth the way there.
  static int64_t stripes(const Walk& w) { return (w.cols + kStripe - 1) / kStripe; }
  static int64_t parts(const Walk& w) { return w.outer * stripes(w); }

  template <class T>
  void part(const void* from, void* to, int64_t i) const {
    const int64_t stripe = i % stripes(w_) * kStripe;
    int64_t rest = i / stripes(w_), x = 0, y = 0;
    for (size_t j = w_.extents.size(); j-- > 0; rest /= w_.extents[j]) {
      x += rest % w_.extents[j] * w_.from[j];
      y += rest % w_.extents[j] * w_.to[j];
    }
    const T* in = static_cast<const T*>(from) + x;
    T* out = static_cast<T*>(to) + y;
    if (w_.copied) {
      std::memcpy(out, in, static_cast<size_t>(w_.rows) * sizeof(T));
      return;
    }
    const int64_t end = std::min(stripe + kStripe, w_.cols);
    for (int64_t r = 0; r < w_.rows; r += kTile)
      for (int64_t col = stripe; col < end; col += kTile)
        turn_tile(in + r * w_.from_row + col, w_.from_row, out + col * w_.to_row + r, w_.to_row,
                  std::min(kTile, w_.rows - r), std::min(kTile, end - col));
  }

  Walk w_;
  int num_threads_;
  void (CpuTranspose::*part_)(const void*, void*, int64_t) const = nullptr;
};

// Copies of whole blocks, large ones by several threads; the plain kernel does the small ones.
template <auto Parse>
class CpuBlocks {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const int num_threads = num_threads_for(d.threads, d.outputs[0], Parse(d).outer);
    if (num_threads == 1) {
      why = "too small, or of too few blocks, for threads";
      return false;
    }
    choice.workspace = 0;
    why = "whole blocks are copied, " + std::to_string(num_threads) + " threads";
    return true;
  }
  CpuBlocks(plait_device*, const plait_op_desc& d)
      : blocks_(Parse(d)),
        size_(static_cast<int64_t>(kit::dtype_bytes(d.outputs[0].dtype))),
        num_threads_(num_threads_for(d.threads, d.outputs[0], blocks_.outer)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    in_parallel(num_threads_, blocks_.outer, [&](int64_t first, int64_t last) {
      auto* y = static_cast<char*>(operands[blocks_.copies.size()]);
      const int64_t step = blocks_.to_step * size_;
      if (blocks_.zero && last > first)
        std::memset(y + first * step, 0, static_cast<size_t>((last - first) * step));
      for (int64_t o = first; o < last; ++o)
        for (size_t i = 0; i < blocks_.copies.size(); ++i) {
          const kit::BlockCopy& c = blocks_.copies[i];
          if (c.length > 0)
            std::memcpy(y + o * step + c.to * size_,
                        static_cast<const char*>(operands[i]) + (o * c.from_step + c.from) * size_,
                        static_cast<size_t>(c.length * size_));
        }
    });
  }

 private:
  kit::Blocks blocks_;
  int64_t size_;
  int num_threads_;
};

}  // namespace

void add_layout(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuTranspose>("tiled", "transpose", kDevice, kFastPriority));
  out.push_back(kernel<CpuBlocks<kit::parse_slice>>("parallel", "slice", kDevice, kFastPriority));
  out.push_back(kernel<CpuBlocks<kit::parse_pad>>("parallel", "pad", kDevice, kFastPriority));
  out.push_back(kernel<CpuBlocks<kit::parse_concat>>("parallel", "concat", kDevice, kFastPriority));
}

}  // namespace plait::cpu

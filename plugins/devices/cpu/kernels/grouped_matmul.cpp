// grouped_matmul and its gradient by the products of matmul/, prepared for a few numbers of rows.
// How many rows a group has is data: rows that fill no such product are copied, with zeros behind
// them, into one that is a little larger.
//   M rows, E groups, I inputs, O outputs of a product
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "kit/ops/grouped.hpp"
#include "plugins/devices/cpu/kernels/float_rows.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/matmul/candidates.hpp"
#include "plugins/devices/cpu/matmul/matmul.hpp"
#include "plugins/devices/cpu/parallel.hpp"
#include "plugins/support/elements.hpp"

namespace plait::cpu {
namespace {

using kit::GroupedMatmul;
using kit::RowRange;

constexpr double kNanosecondsPerFlop = 0.01;

double cost(const GroupedMatmul& g) {
  return 2.0 * static_cast<double>(g.rows) * static_cast<double>(g.inputs) *
         static_cast<double>(g.outputs) * kNanosecondsPerFlop;
}

// A kernel of oneDNN makes one run at a time, and several threads run one here.
std::unique_ptr<MatmulKernel> shared_kernel(const MatmulDesc& d) {
  const KernelChoice choice = choose_matmul(d);
  if (choice.kernel != "onednn") return make_matmul(d);
  const Isa isa = machine_isa();
  if (blocked_capability(d, isa).refusal.empty()) return make_blocked(d, isa);
  return jit_capability(d, isa).refusal.empty() ? make_jit(d, isa) : make_plain(d);
}

// Products of so many rows each, ascending.
class SizedProducts {
 public:
  SizedProducts() = default;
  // desc_of(rows): the product of so many rows. most: rows that there are at all.
  template <size_t n, class F>
  SizedProducts(const std::array<int64_t, n>& sizes, int64_t most, const F& desc_of) {
    for (const int64_t size : sizes) {
      sizes_.push_back(size);
      kernels_.push_back(shared_kernel(desc_of(size)));
      workspace_ = std::max(workspace_, kernels_.back()->workspace_bytes());
      if (size >= most) break;
    }
  }
  int64_t largest() const { return sizes_.back(); }
  int64_t workspace_floats() const {
    return line_floats(static_cast<int64_t>((workspace_ + sizeof(float) - 1) / sizeof(float)));
  }
  // The smallest of at least so many rows, which are no more than the largest has.
  size_t for_rows(int64_t rows) const {
    return static_cast<size_t>(std::lower_bound(sizes_.begin(), sizes_.end(), rows) -
                               sizes_.begin());
  }
  int64_t size(size_t i) const { return sizes_[i]; }
  void run(size_t i, const float* a, const float* b, float* c, float* workspace) const {
    MatmulArgs args;
    args.a = a;
    args.b = b;
    args.c = c;
    args.workspace = workspace;
    kernels_[i]->run(args);
  }

 private:
  std::vector<int64_t> sizes_;
  std::vector<std::unique_ptr<MatmulKernel>> kernels_;
  size_t workspace_ = 0;
};

bool takes(const plait_op_desc& d, std::string& why) {
  for (const plait_shape* s : {&d.inputs[0], &d.inputs[1], &d.outputs[0]})
    if (!FloatRows::takes(*s)) {
      why = std::string("takes f32 and 16-bit floats, found ") + kit::dtype_name(s->dtype);
      return false;
    }
  return true;
}
std::string variant(const plait_op_desc& d) {
  return d.inputs[0].dtype == PLAIT_F32 ? "products of f32"
                                        : "operands widened to f32, so no faster than f32";
}

// Threads share the tiles, which are rows of one group.
class CpuGroupedMatmul {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_grouped_matmul(d);
    if (!takes(d, why)) return false;
    const CpuGroupedMatmul k(nullptr, d);
    choice.workspace = static_cast<uint64_t>(k.threads_ * k.floats_) * sizeof(float);
    why = variant(d);
    return true;
  }
  CpuGroupedMatmul(plait_device*, const plait_op_desc& d)
      : g_(kit::parse_grouped_matmul(d)),
        index_(d.inputs[2].dtype),
        x_(d.inputs[0].dtype, g_.inputs),
        b_(d.inputs[1].dtype, g_.inputs * g_.outputs),
        y_(d.outputs[0].dtype, g_.outputs) {
    products_ = SizedProducts(kSizes, g_.rows, [this](int64_t rows) {
      MatmulDesc m;
      m.m = rows;
      m.n = g_.outputs;
      m.k = g_.inputs;
      m.transpose_b = g_.transpose_b;
      m.batch_stride_c = m.m * m.n;
      return m;
    });
    const int64_t most = products_.largest();
    threads_ = choose_num_threads(d.threads, cost(g_), g_.rows / most + g_.groups);
    at_x_ = b_.wide() ? 0 : line_floats(g_.inputs * g_.outputs);
    at_y_ = at_x_ + line_floats(most * g_.inputs);
    at_rest_ = at_y_ + line_floats(most * g_.outputs);
    floats_ = at_rest_ + products_.workspace_floats();
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    int64_t tiles = 0, begin = g_.rows, end = 0;
    for (int64_t e = 0; e < g_.groups; ++e) {
      const RowRange r = range(operands, e);
      if (r.count() == 0) continue;
      tiles += tiles_of(r);
      begin = std::min(begin, r.begin);
      end = std::max(end, r.end);
    }
    y_.zero(operands[3], 0, begin);
    y_.zero(operands[3], std::max(begin, end), g_.rows - std::max(begin, end));
    on_pool(threads_, [&](int64_t t, int64_t all) {
      run_tiles(operands, tiles * t / all, tiles * (t + 1) / all,
                static_cast<float*>(workspace) + t * floats_);
    });
  }

 private:
  static constexpr std::array<int64_t, 9> kSizes{1, 2, 4, 8, 16, 24, 32, 48, 64};

  RowRange range(void* const* operands, int64_t e) const {
    return kit::rows_of_group(
        g_, e, [&](int64_t i) { return support::read_index(index_, operands[2], i); });
  }
  int64_t tiles_of(const RowRange& r) const {
    return (r.count() + products_.largest() - 1) / products_.largest();
  }
  // Tiles [first, last) of all, in the order of the rows.
  void run_tiles(void* const* operands, int64_t first, int64_t last, float* buffer) const {
    int64_t tile = 0;
    for (int64_t e = 0; e < g_.groups && tile < last; ++e) {
      const RowRange r = range(operands, e);
      const int64_t n = tiles_of(r);
      const int64_t from = std::max(first - tile, int64_t{0}), to = std::min(last - tile, n);
      tile += n;
      if (from >= to) continue;
      const float* b = b_.read(operands[1], e, 1, buffer);
      for (int64_t i = from; i < to; ++i) {
        const int64_t row = r.begin + i * products_.largest();
        multiply(operands, row, std::min(products_.largest(), r.end - row), b, buffer);
      }
    }
  }
  void multiply(void* const* operands, int64_t row, int64_t n, const float* b,
                float* buffer) const {
    const size_t i = products_.for_rows(n);
    const int64_t more = products_.size(i) - n;
    const float* x = nullptr;
    float* y = buffer + at_y_;
    if (more == 0) {
      x = x_.read(operands[0], row, n, buffer + at_x_);
      y = y_.target(operands[3], row, y);
    } else {
      x = buffer + at_x_;
      x_.copy(operands[0], row, n, buffer + at_x_);
      std::fill_n(buffer + at_x_ + n * g_.inputs, more * g_.inputs, 0.0f);
    }
    products_.run(i, x, b, y, buffer + at_rest_);
    y_.write(y, operands[3], row, n);
  }

  GroupedMatmul g_;
  uint32_t index_;
  FloatRows x_, b_, y_;  // a row of b_ is a matrix
  SizedProducts products_;
  int64_t at_x_ = 0, at_y_ = 0, at_rest_ = 0, floats_ = 0;  // of a thread's workspace
  int threads_ = 1;
};

// y of a group is added up over its rows, some at a time. Threads take one group after the other,
// or share the product of each where there are fewer groups than threads.
class CpuGroupedMatmulGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_grouped_matmul_grad(d);
    if (!takes(d, why)) return false;
    const CpuGroupedMatmulGrad k(nullptr, d);
    choice.workspace = static_cast<uint64_t>(k.threads_ * k.floats_) * sizeof(float);
    why = variant(d);
    return true;
  }
  CpuGroupedMatmulGrad(plait_device*, const plait_op_desc& d)
      : g_(kit::parse_grouped_matmul_grad(d)),
        index_(d.inputs[2].dtype),
        a_(d.inputs[0].dtype, g_.inputs),
        b_(d.inputs[1].dtype, g_.outputs),
        y_(d.outputs[0].dtype, g_.inputs * g_.outputs) {
    const bool inside = g_.groups < static_cast<int64_t>(d.threads);
    threads_ = inside ? 1 : choose_num_threads(d.threads, cost(g_), g_.groups);
    products_ = SizedProducts(kSizes, g_.rows, [&](int64_t rows) {
      MatmulDesc m;
      m.m = g_.inputs;
      m.n = g_.outputs;
      m.k = rows;
      m.transpose_a = true;
      m.batch_stride_c = m.m * m.n;
      m.accumulate = true;
      m.threads = inside ? static_cast<int>(std::clamp<uint32_t>(d.threads, 1, 1024)) : 1;
      return m;
    });
    const int64_t most = products_.largest();
    at_b_ = line_floats(most * g_.inputs);
    at_y_ = at_b_ + line_floats(most * g_.outputs);
    at_rest_ = at_y_ + (y_.wide() ? 0 : line_floats(g_.inputs * g_.outputs));
    floats_ = at_rest_ + products_.workspace_floats();
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    std::atomic<int64_t> next{0};
    on_pool(threads_, [&](int64_t t, int64_t) {
      float* buffer = static_cast<float*>(workspace) + t * floats_;
      for (int64_t e = next++; e < g_.groups; e = next++) multiply(operands, e, buffer);
    });
  }

 private:
  static constexpr std::array<int64_t, 3> kSizes{16, 64, 256};

  void multiply(void* const* operands, int64_t e, float* buffer) const {
    const RowRange r = kit::rows_of_group(
        g_, e, [&](int64_t i) { return support::read_index(index_, operands[2], i); });
    float* y = y_.target(operands[3], e, buffer + at_y_);
    std::fill_n(y, g_.inputs * g_.outputs, 0.0f);
    for (int64_t row = r.begin; row < r.end; row += products_.largest()) {
      const int64_t n = std::min(products_.largest(), r.end - row);
      const size_t i = products_.for_rows(n);
      const int64_t size = products_.size(i);
      products_.run(i, rows(a_, operands[0], row, n, size, buffer),
                    rows(b_, operands[1], row, n, size, buffer + at_b_), y, buffer + at_rest_);
    }
    y_.write(y, operands[3], e, 1);
  }
  // n rows, and zeros behind them up to `size`.
  static const float* rows(const FloatRows& of, const void* base, int64_t row, int64_t n,
                           int64_t size, float* buffer) {
    if (n == size) return of.read(base, row, n, buffer);
    of.copy(base, row, n, buffer);
    std::fill_n(buffer + n * of.width(), (size - n) * of.width(), 0.0f);
    return buffer;
  }

  GroupedMatmul g_;
  uint32_t index_;
  FloatRows a_, b_, y_;  // a row of y_ is a matrix
  SizedProducts products_;
  int64_t at_b_ = 0, at_y_ = 0, at_rest_ = 0, floats_ = 0;
  int threads_ = 1;
};

}  // namespace

void add_grouped_matmul(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuGroupedMatmul>("tiles", "grouped_matmul", kDevice, kFastPriority));
  out.push_back(
      kernel<CpuGroupedMatmulGrad>("groups", "grouped_matmul_grad", kDevice, kFastPriority));
}

}  // namespace plait::cpu

// gather of any type and scatter_add of f32, with threads. V rows of a table, W elements per row, N
// indices. Rows are moved and added as a whole; the compiler vectorises that as well as memory
// allows.
#include <cstring>
#include <limits>

#include "kit/dtype.hpp"
#include "kit/ops/gather.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"
#include "plugins/devices/cpu/parallel.hpp"
#include "plugins/support/elements.hpp"

namespace plait::cpu {
namespace {

using kit::Gather;

constexpr double kNanosecondsPerByte = 0.1;

double cost(const Gather& g, uint64_t size) {
  return static_cast<double>(g.count) * static_cast<double>(g.width) * static_cast<double>(size) *
         kNanosecondsPerByte;
}

std::string variant(const char* what, int num_threads) {
  return what + (num_threads > 1 ? ", " + std::to_string(num_threads) + " threads" : std::string());
}

class CpuGather {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const Gather g = kit::parse_gather(d);
    const int num_threads = num_threads_of(g, d);
    if (num_threads == 1) {
      why = "too small for threads";
      return false;
    }
    choice.workspace = 0;
    why = variant("rows copied", num_threads);
    return true;
  }
  CpuGather(plait_device*, const plait_op_desc& d)
      : g_(kit::parse_gather(d)), type_(d.inputs[0].dtype), num_threads_(num_threads_of(g_, d)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto* table = static_cast<const char*>(operands[0]);
    auto* y = static_cast<char*>(operands[2]);
    const int64_t size = static_cast<int64_t>(kit::dtype_bytes(type_)) * g_.width;
    const double nan = kit::is_float(type_) ? std::numeric_limits<double>::quiet_NaN() : 0;
    in_parallel(num_threads_, g_.count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t id = support::read_index(g_.index, operands[1], i);
        const int64_t row = g_.known(id) ? id - g_.first : -1;
        if (row >= 0 && row < g_.rows)
          std::memcpy(y + i * size, table + row * size, static_cast<size_t>(size));
        else if (g_.known(id))  // in another part of the table
          std::memset(y + i * size, 0, static_cast<size_t>(size));
        else
          for (int64_t j = 0; j < g_.width; ++j)
            support::write_element(type_, y, i * g_.width + j, nan);
      }
    });
  }

 private:
  static int num_threads_of(const Gather& g, const plait_op_desc& d) {
    return choose_num_threads(d.threads, cost(g, kit::dtype_bytes(d.inputs[0].dtype)), g.count);
  }
  Gather g_;
  uint32_t type_;
  int num_threads_;
};

// Threads share the columns, so each element still gets its addends in the order of the indices.
class CpuScatterAdd {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const Gather g = kit::parse_scatter_add(d);
    if (d.inputs[0].dtype != PLAIT_F32) {
      why = std::string("takes f32 only, found ") + kit::dtype_name(d.inputs[0].dtype);
      return false;
    }
    choice.workspace = 0;
    why = variant("rows added in place", num_threads_of(g, d));
    return true;
  }
  CpuScatterAdd(plait_device*, const plait_op_desc& d)
      : g_(kit::parse_scatter_add(d)), num_threads_(num_threads_of(g_, d)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto* dy = static_cast<const float*>(operands[0]);
    auto* y = static_cast<float*>(operands[g_.accumulate ? 3 : 2]);
    const auto* before = g_.accumulate ? static_cast<const float*>(operands[2]) : nullptr;
    in_parallel(num_threads_, g_.width, [&](int64_t first, int64_t last) {
      const int64_t n = last - first;
      if (n == 0) return;
      const auto bytes = static_cast<size_t>(n) * sizeof(float);
      for (int64_t v = 0; v < g_.rows && before != y; ++v) {
        float* row = y + v * g_.width + first;
        if (before)
          std::memcpy(row, before + v * g_.width + first, bytes);
        else
          std::memset(row, 0, bytes);
      }
      for (int64_t i = 0; i < g_.count; ++i) {
        const int64_t row = kit::local_row(support::read_index(g_.index, operands[1], i), g_.first);
        if (row >= 0 && row < g_.rows)
          add_row(y + row * g_.width + first, dy + i * g_.width + first, n);
      }
    });
  }

 private:
  static void add_row(float* __restrict to, const float* __restrict from, int64_t n) {
    for (int64_t j = 0; j < n; ++j) to[j] += from[j];
  }
  // At least a cache line each, so that threads don't share one.
  static int num_threads_of(const Gather& g, const plait_op_desc& d) {
    const double zeroing = g.accumulate
                               ? 0
                               : static_cast<double>(g.rows) * static_cast<double>(g.width) *
                                     sizeof(float) * kNanosecondsPerByte;
    return choose_num_threads(d.threads, 3 * cost(g, sizeof(float)) + zeroing, g.width / 64);
  }
  Gather g_;
  int num_threads_;
};

}  // namespace

void add_gather(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuGather>("parallel", "gather", kDevice, kFastPriority));
  out.push_back(kernel<CpuScatterAdd>("rows", "scatter_add", kDevice, kFastPriority));
  out.push_back(
      kernel<Widened<CpuScatterAdd>>("widened", "scatter_add", kDevice, kWidenedPriority));
}

}  // namespace plait::cpu

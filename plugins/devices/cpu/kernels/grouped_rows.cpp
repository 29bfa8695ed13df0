// group_rows, ungroup_rows and its gradient, with threads over the tokens: a row belongs to one
// token, so no thread waits for another, and a token's sum has the order of its places.
#include <algorithm>
#include <cstring>

#include "kit/ops/grouped.hpp"
#include "plugins/devices/cpu/kernels/float_rows.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/parallel.hpp"
#include "plugins/support/grouping.hpp"

namespace plait::cpu {
namespace {

constexpr double kNanosecondsPerByte = 0.1;

int threads_for(const plait_op_desc& d, int64_t rows, int64_t width, int64_t tokens) {
  return choose_num_threads(
      d.threads, static_cast<double>(rows) * static_cast<double>(width) * 8 * kNanosecondsPerByte,
      tokens);
}

// Whether all operands from `first` on that are floats are of at most 32 bits.
bool takes_floats(const plait_op_desc& d, std::string& why) {
  for (uint32_t i = 0; i < d.n_inputs + d.n_outputs; ++i) {
    const plait_shape& s = i < d.n_inputs ? d.inputs[i] : d.outputs[i - d.n_inputs];
    if (!kit::is_float(s.dtype) || FloatRows::takes(s)) continue;
    why = std::string("takes f32 and 16-bit floats, found ") + kit::dtype_name(s.dtype);
    return false;
  }
  return true;
}

class CpuGroupRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = static_cast<uint64_t>(kit::parse_group_rows(d).groups + 1) * sizeof(int32_t);
    why = "counting sort, rows copied";
    return true;
  }
  CpuGroupRows(plait_device*, const plait_op_desc& d)
      : g_(kit::parse_group_rows(d)), index_(d.inputs[1].dtype) {
    size_ = static_cast<int64_t>(kit::dtype_bytes(d.inputs[0].dtype)) * g_.width;
    threads_ = threads_for(d, g_.tokens * g_.each, g_.width, g_.tokens);
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    auto* place = static_cast<int32_t*>(operands[3]);
    support::sort_into_groups(g_, index_, operands[1], place, static_cast<int32_t*>(operands[4]),
                              static_cast<int32_t*>(workspace));
    if (size_ == 0) return;
    const auto* x = static_cast<const char*>(operands[0]);
    auto* rows = static_cast<char*>(operands[2]);
    in_parallel(threads_, g_.tokens, [&](int64_t first, int64_t last) {
      for (int64_t n = first; n < last; ++n)
        for (int64_t i = n * g_.each; i < (n + 1) * g_.each; ++i)
          std::memcpy(rows + place[i] * size_, x + n * size_, static_cast<size_t>(size_));
    });
  }

 private:
  kit::GroupRows g_;
  uint32_t index_;
  int64_t size_ = 0;  // bytes of a row
  int threads_ = 1;
};

class CpuUngroupRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const CpuUngroupRows k(nullptr, d);
    if (!takes_floats(d, why)) return false;
    choice.workspace = static_cast<uint64_t>(k.threads_ * k.buffer_) * sizeof(float);
    why = "threads over tokens";
    return true;
  }
  CpuUngroupRows(plait_device*, const plait_op_desc& d)
      : u_(kit::parse_ungroup_rows(d)),
        weight_type_(u_.weighted ? d.inputs[1].dtype : 0),
        place_type_(d.inputs[d.n_inputs - 1].dtype),
        rows_(d.inputs[0].dtype, u_.width) {
    y_ = FloatRows(d.outputs ? d.outputs[0].dtype : d.inputs[0].dtype, u_.width);
    buffer_ = 2 * line_floats(u_.width);
    threads_ = threads_for(d, u_.tokens * u_.each, u_.width, u_.tokens);
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    on_pool(threads_, [&](int64_t t, int64_t all) {
      float* buffer = static_cast<float*>(workspace) + t * buffer_;
      for (int64_t n = u_.tokens * t / all; n < u_.tokens * (t + 1) / all; ++n)
        add_up(operands, n, buffer, buffer + line_floats(u_.width));
    });
  }

 private:
  void add_up(void* const* operands, int64_t n, float* row_buffer, float* sum_buffer) const {
    void* y = operands[u_.weighted ? 3 : 2];
    float* sum = y_.target(y, n, sum_buffer);
    std::fill_n(sum, u_.width, 0.0f);
    for (int64_t i = n * u_.each; i < (n + 1) * u_.each; ++i) {
      const int64_t at = support::read_index(place_type_, operands[u_.weighted ? 2 : 1], i);
      if (at < 0 || at >= u_.tokens * u_.each) continue;
      const float weight =
          u_.weighted ? static_cast<float>(support::read_element(weight_type_, operands[1], i))
                      : 1.0f;
      const float* row = rows_.read(operands[0], at, 1, row_buffer);
      for (int64_t c = 0; c < u_.width; ++c) sum[c] += weight * row[c];
    }
    y_.write(sum, y, n, 1);
  }

  kit::UngroupRows u_;
  uint32_t weight_type_, place_type_;
  FloatRows rows_, y_;
  int64_t buffer_ = 0;  // floats of a thread
  int threads_ = 1;
};

class CpuUngroupRowsGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const CpuUngroupRowsGrad k(nullptr, d);
    if (!takes_floats(d, why)) return false;
    choice.workspace = static_cast<uint64_t>(k.threads_ * k.buffer_) * sizeof(float);
    why = "threads over tokens";
    return true;
  }
  CpuUngroupRowsGrad(plait_device*, const plait_op_desc& d)
      : u_(kit::parse_ungroup_rows_grad(d)),
        place_(d.n_inputs - 1),
        place_type_(d.inputs[place_].dtype),
        dy_(d.inputs[0].dtype, u_.width) {
    if (u_.weighted) {
      rows_ = FloatRows(d.inputs[1].dtype, u_.width);
      weight_type_ = d.inputs[2].dtype;
    }
    if (d.outputs) drows_ = FloatRows(d.outputs[0].dtype, u_.width);
    if (d.outputs && u_.weighted) dweight_type_ = d.outputs[1].dtype;
    buffer_ = 3 * line_floats(u_.width);
    threads_ = threads_for(d, 2 * u_.tokens * u_.each, u_.width, u_.tokens);
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    drows_.zero(operands[place_ + 1], 0, u_.tokens * u_.each);
    on_pool(threads_, [&](int64_t t, int64_t all) {
      float* buffer = static_cast<float*>(workspace) + t * buffer_;
      for (int64_t n = u_.tokens * t / all; n < u_.tokens * (t + 1) / all; ++n) {
        const float* dy = dy_.read(operands[0], n, 1, buffer);
        for (int64_t i = n * u_.each; i < (n + 1) * u_.each; ++i)
          spread(operands, i, dy, buffer + line_floats(u_.width));
      }
    });
  }

 private:
  void spread(void* const* operands, int64_t i, const float* dy, float* buffer) const {
    const int64_t at = support::read_index(place_type_, operands[place_], i);
    const bool there = at >= 0 && at < u_.tokens * u_.each;
    if (!u_.weighted) {
      if (there) drows_.write(dy, operands[place_ + 1], at, 1);
      return;
    }
    float dot = 0;
    if (there) {
      const auto weight = static_cast<float>(support::read_element(weight_type_, operands[2], i));
      const float* row = rows_.read(operands[1], at, 1, buffer);
      float* drow = drows_.target(operands[place_ + 1], at, buffer + line_floats(u_.width));
      dot = product(row, dy, weight, drow);
      drows_.write(drow, operands[place_ + 1], at, 1);
    }
    support::write_element(dweight_type_, operands[place_ + 2], i, static_cast<double>(dot));
  }
  // Lanes of their own, so that the compiler may use vectors; their sum has a fixed order.
  float product(const float* row, const float* dy, float weight, float* drow) const {
    constexpr int64_t kLanes = 16;
    float lanes[kLanes] = {};
    int64_t c = 0;
    for (; c + kLanes <= u_.width; c += kLanes)
      for (int64_t l = 0; l < kLanes; ++l) {
        lanes[l] += row[c + l] * dy[c + l];
        drow[c + l] = weight * dy[c + l];
      }
    for (; c < u_.width; ++c) {
      lanes[c % kLanes] += row[c] * dy[c];
      drow[c] = weight * dy[c];
    }
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    return sum;
  }

  kit::UngroupRows u_;
  uint32_t place_, place_type_, weight_type_ = 0, dweight_type_ = 0;
  FloatRows dy_, rows_, drows_;
  int64_t buffer_ = 0;
  int threads_ = 1;
};

}  // namespace

void add_grouped_rows(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuGroupRows>("parallel", "group_rows", kDevice, kFastPriority));
  out.push_back(kernel<CpuUngroupRows>("parallel", "ungroup_rows", kDevice, kFastPriority));
  out.push_back(
      kernel<CpuUngroupRowsGrad>("parallel", "ungroup_rows_grad", kDevice, kFastPriority));
}

}  // namespace plait::cpu

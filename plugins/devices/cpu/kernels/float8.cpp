// greatest_magnitude, quantize_f8 and matmul_f8. No processor of today multiplies 8-bit floats: the
// product is one of f32, of operands that are widened and scaled before it, so no faster. It serves
// to train and compare without a GPU.
#include "kit/ops/float8.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kit/dtype.hpp"
#include "plugins/devices/cpu/half/convert.hpp"
#include "plugins/devices/cpu/kernels/fused_activation.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"
#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {
namespace {

constexpr int64_t kAtOnce = 1024;  // elements that are widened at a time
constexpr double kNanosecondsPerElement = 0.5;

// An operand of f32 or 16-bit floats, read as f32.
class Rows {
 public:
  static bool takes(const plait_shape& s, std::string& why) {
    const bool taken = s.dtype == PLAIT_F32 || s.dtype == PLAIT_BF16 || s.dtype == PLAIT_F16;
    why = taken ? "rows divided among threads"
                : std::string("takes f32, bf16 and f16, found ") + kit::dtype_name(s.dtype);
    return taken;
  }
  explicit Rows(uint32_t dtype) : widen_(dtype == PLAIT_F32 ? nullptr : widen_function(dtype)) {}
  // n elements from `at` on, at most kAtOnce; may lie in `buffer`.
  const float* read(const void* x, int64_t at, int64_t n, float* buffer) const {
    if (!widen_) return static_cast<const float*>(x) + at;
    widen_(static_cast<const uint16_t*>(x) + at, buffer, n);
    return buffer;
  }

 private:
  WidenFunction widen_;
};

class GreatestMagnitude {
 public:
  static bool select(const plait_op_desc& d, plait_choice&, std::string& why) {
    kit::parse_greatest_magnitude(d);
    return Rows::takes(d.inputs[0], why);
  }
  GreatestMagnitude(plait_device*, const plait_op_desc& d)
      : p_(kit::parse_greatest_magnitude(d)), rows_(d.inputs[0].dtype) {
    n_ = p_.rows * p_.columns;
    const int64_t parts = p_.of == kit::ScaleOf::kTensor ? n_ / kAtOnce + 1
                          : p_.of == kit::ScaleOf::kRows ? p_.rows
                                                         : p_.columns / 64 + 1;
    threads_ =
        choose_num_threads(d.threads, static_cast<double>(n_) * kNanosecondsPerElement, parts);
  }
  void run(plait_queue*, void* const* operands, void*) const {
    const void* x = operands[0];
    auto* most = static_cast<uint32_t*>(operands[1]);  // the bits of f32
    if (p_.of == kit::ScaleOf::kTensor) return of_tensor(x, most);
    if (p_.of == kit::ScaleOf::kRows)
      return in_parallel(threads_, p_.rows, [&](int64_t first, int64_t last) {
        for (int64_t r = first; r < last; ++r)
          most[r] = of_range(x, r * p_.columns, (r + 1) * p_.columns);
      });
    in_parallel(threads_, p_.columns, [&](int64_t first, int64_t last) {
      for (; first < last; first += kAtOnce)
        of_columns(x, first, std::min(kAtOnce, last - first), most + first);
    });
  }

 private:
  uint32_t of_range(const void* x, int64_t first, int64_t last) const {
    float buffer[kAtOnce];
    uint32_t most = 0;
    for (; first < last; first += kAtOnce) {
      const int64_t n = std::min(kAtOnce, last - first);
      const float* v = rows_.read(x, first, n, buffer);
      for (int64_t i = 0; i < n; ++i) most = std::max(most, kit::magnitude_bits(v[i]));
    }
    return most;
  }
  void of_tensor(const void* x, uint32_t* to) const {
    std::atomic<uint32_t> most = 0;
    in_parallel(threads_, n_, [&](int64_t first, int64_t last) {
      const uint32_t own = of_range(x, first, last);
      uint32_t seen = most.load();
      while (seen < own && !most.compare_exchange_weak(seen, own)) {
      }
    });
    *to = most;
  }
  void of_columns(const void* x, int64_t first, int64_t n, uint32_t* most) const {
    float buffer[kAtOnce];
    std::fill(most, most + n, 0u);
    for (int64_t r = 0; r < p_.rows; ++r) {
      const float* v = rows_.read(x, r * p_.columns + first, n, buffer);
      for (int64_t i = 0; i < n; ++i) most[i] = std::max(most[i], kit::magnitude_bits(v[i]));
    }
  }

  kit::GreatestMagnitude p_;
  Rows rows_;
  int64_t n_ = 0;
  int threads_ = 1;
};

class QuantizeF8 {
 public:
  static bool select(const plait_op_desc& d, plait_choice&, std::string& why) {
    kit::parse_quantize_f8(d);
    return Rows::takes(d.inputs[0], why);
  }
  QuantizeF8(plait_device*, const plait_op_desc& d)
      : p_(kit::parse_quantize_f8(d)), rows_(d.inputs[0].dtype) {
    threads_ = choose_num_threads(
        d.threads, static_cast<double>(p_.rows * p_.columns) * kNanosecondsPerElement,
        p_.transpose ? p_.columns / kTile + 1 : p_.rows);
  }
  void run(plait_queue*, void* const* operands, void*) const {
    kit::with_f8(p_.format, [&](auto format) { run_as<decltype(format)>(operands); });
  }

 private:
  static constexpr int64_t kTile = 64;  // columns, which are rows of q: a cache line of each

  template <class Format>
  void run_as(void* const* operands) const {
    const auto* most = static_cast<const float*>(operands[1]);
    auto* q = static_cast<uint8_t*>(operands[2]);
    auto* scale = static_cast<float*>(operands[3]);
    for (int64_t i = 0; i < p_.scales(); ++i) scale[i] = kit::f8_scale<Format>(most[i]);
    if (p_.transpose)
      return in_parallel(threads_, p_.columns, [&](int64_t first, int64_t last) {
        for (; first < last; first += kTile)
          columns<Format>(operands[0], scale, first, std::min(kTile, last - first), q);
      });
    in_parallel(threads_, p_.rows, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const float inverse = kit::f8_inverse(scale[p_.of == kit::ScaleOf::kRows ? r : 0]);
        row<Format>(operands[0], r * p_.columns, inverse, q + r * p_.columns);
      }
    });
  }
  template <class Format>
  void row(const void* x, int64_t at, float inverse, uint8_t* q) const {
    float buffer[kAtOnce];
    if (inverse == 0) return void(std::memset(q, 0, static_cast<size_t>(p_.columns)));
    for (int64_t c = 0; c < p_.columns; c += kAtOnce) {
      const int64_t n = std::min(kAtOnce, p_.columns - c);
      const float* v = rows_.read(x, at + c, n, buffer);
      for (int64_t i = 0; i < n; ++i) q[c + i] = kit::to_f8<Format>(v[i] * inverse);
    }
  }
  template <class Format>
  void columns(const void* x, const float* scale, int64_t first, int64_t n, uint8_t* q) const {
    float buffer[kTile], inverse[kTile];
    for (int64_t i = 0; i < n; ++i)
      inverse[i] = kit::f8_inverse(scale[p_.of == kit::ScaleOf::kColumns ? first + i : 0]);
    for (int64_t r = 0; r < p_.rows; ++r) {
      const float* v = rows_.read(x, r * p_.columns + first, n, buffer);
      for (int64_t i = 0; i < n; ++i)
        q[(first + i) * p_.rows + r] =
            inverse[i] == 0 ? uint8_t{0} : kit::to_f8<Format>(v[i] * inverse[i]);
    }
  }

  kit::QuantizeF8 p_;
  Rows rows_;
  int threads_ = 1;
};

class MatmulF8 {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::MatmulF8 p = kit::parse_matmul_f8(d);
    for (uint32_t i = 4; i < d.n_inputs + d.n_outputs; ++i)
      if (const plait_shape& s = i < d.n_inputs ? d.inputs[i] : d.outputs[i - d.n_inputs];
          s.dtype != PLAIT_F32) {
        why = std::string("takes a bias and a result of f32, found ") + kit::dtype_name(s.dtype);
        return false;
      }
    const KernelChoice product = choose_matmul(desc_of(p, d));
    choice.workspace = bytes_of(p.m * p.k) + bytes_of(p.n * p.k) + product.workspace_bytes;
    why = product.kernel + ", 8-bit operands widened to f32, so no faster than f32";
    return true;
  }
  MatmulF8(plait_device*, const plait_op_desc& d)
      : p_(kit::parse_matmul_f8(d)),
        kernel_(make_matmul(desc_of(p_, d))),
        type_a_(d.inputs[0].dtype),
        type_b_(d.inputs[1].dtype),
        y_(d.n_inputs) {
    y_bytes_ = kit::bytes(d.outputs[0]);
    threads_ = choose_num_threads(
        d.threads, static_cast<double>((p_.m + p_.n) * p_.k) * kNanosecondsPerElement,
        std::max(p_.m, p_.n));
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    auto* a = static_cast<float*>(workspace);
    auto* b = reinterpret_cast<float*>(static_cast<char*>(workspace) + bytes_of(p_.m * p_.k));
    widen(type_a_, operands[0], operands[2], p_.m, p_.rows_a, a);
    widen(type_b_, operands[1], operands[3], p_.n, p_.rows_b, b);
    MatmulArgs args;
    args.a = a;
    args.b = b;
    if (p_.bias) args.bias = static_cast<const float*>(operands[4]);
    args.c = static_cast<float*>(operands[y_]);
    args.workspace = reinterpret_cast<char*>(b) + bytes_of(p_.n * p_.k);
    if (p_.accumulate && operands[y_ - 1] != operands[y_])
      std::memcpy(operands[y_], operands[y_ - 1], y_bytes_);
    kernel_->run(args);
  }

 private:
  static uint64_t bytes_of(int64_t n) {
    return (static_cast<uint64_t>(n) * sizeof(float) + 63) / 64 * 64;
  }
  static MatmulDesc desc_of(const kit::MatmulF8& p, const plait_op_desc& d) {
    MatmulDesc m;
    m.m = p.m;
    m.n = p.n;
    m.k = p.k;
    m.transpose_b = true;
    m.batch_stride_c = p.m * p.n;
    m.accumulate = p.accumulate;
    m.bias = p.bias;
    m.activation = fused_activation(p.activation);
    m.threads = static_cast<int>(std::clamp<uint32_t>(d.threads, 1, 1024));
    return m;
  }
  // Rows of k numbers, times their scale.
  void widen(uint32_t dtype, const void* from, const void* scales, int64_t rows, bool each,
             float* to) const {
    const auto* q = static_cast<const uint8_t*>(from);
    const auto* scale = static_cast<const float*>(scales);
    kit::with_f8(dtype, [&](auto format) {
      in_parallel(threads_, rows, [&](int64_t first, int64_t last) {
        for (int64_t r = first; r < last; ++r) {
          const float s = scale[each ? r : 0];
          for (int64_t i = r * p_.k; i < (r + 1) * p_.k; ++i)
            to[i] = s * kit::from_f8<decltype(format)>(q[i]);
        }
      });
    });
  }

  kit::MatmulF8 p_;
  std::unique_ptr<MatmulKernel> kernel_;
  uint32_t type_a_, type_b_;
  uint32_t y_;  // operand
  uint64_t y_bytes_ = 0;
  int threads_ = 1;
};

}  // namespace

void add_float8(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<GreatestMagnitude>("fast", "greatest_magnitude", kDevice, kFastPriority));
  out.push_back(kernel<QuantizeF8>("fast", "quantize_f8", kDevice, kFastPriority));
  out.push_back(kernel<MatmulF8>("widened", "matmul_f8", kDevice, kFastPriority));
  out.push_back(kernel<Widened<MatmulF8>>("widened_16", "matmul_f8", kDevice, kWidenedPriority));
}

}  // namespace plait::cpu

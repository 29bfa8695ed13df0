// The ops `quantize`, `dequantize`, `gather_quantized` and `matmul_quantized`: hands products to
// the component in matmul/.
#include "kit/ops/quantized.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kit/dtype.hpp"
#include "plugins/devices/cpu/half/convert.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/quantized_desc.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"
#include "plugins/devices/cpu/matmul/quantized.hpp"
#include "plugins/support/elements.hpp"

namespace plait::cpu {
namespace {

// 16-bit weights are widened one block at a time.
class Quantize {
 public:
  static bool select(const plait_op_desc& d, plait_choice&, std::string& why) {
    kit::parse_quantize(d);
    const uint32_t dtype = d.inputs[0].dtype;
    const bool taken = dtype == PLAIT_F32 || dtype == PLAIT_BF16 || dtype == PLAIT_F16;
    why = taken ? "rows divided among threads"
                : std::string("takes f32, bf16 and f16, found ") + kit::dtype_name(dtype);
    return taken;
  }
  Quantize(plait_device*, const plait_op_desc& d)
      : p_(kit::parse_quantize(d)),
        bytes_per_weight_(static_cast<int64_t>(kit::dtype_bytes(d.inputs[0].dtype))) {
    if (d.inputs[0].dtype != PLAIT_F32) widen_ = widen_function(d.inputs[0].dtype);
    const double nanoseconds_per_element = p_.nf4() ? 4 : 1;
    threads_ = choose_num_threads(
        d.threads, static_cast<double>(p_.rows * p_.columns) * nanoseconds_per_element, p_.rows);
  }
  void run(plait_queue*, void* const* operands, void*) const {
    in_parallel(threads_, p_.rows, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        const char* w =
            static_cast<const char*>(operands[0]) + row * p_.columns * bytes_per_weight_;
        auto* q = static_cast<uint8_t*>(operands[1]) + row * p_.bytes();
        float* scales = static_cast<float*>(operands[2]) + row * p_.floats();
        for (int64_t i = 0; i < p_.columns; i += p_.part())
          part(w + i * bytes_per_weight_, i, std::min(p_.part(), p_.columns - i), q, scales);
      }
    });
  }

 private:
  void part(const char* w, int64_t first, int64_t n, uint8_t* q, float* scales) const {
    if (!widen_)
      return kit::quantize_part(p_, reinterpret_cast<const float*>(w), first, n, q, scales);
    float wide[kit::kNf4Group];
    widen_(reinterpret_cast<const uint16_t*>(w), wide, n);
    kit::quantize_part(p_, wide, first, n, q, scales);
  }

  kit::Quantized p_;
  int64_t bytes_per_weight_;
  WidenFunction widen_ = nullptr;  // null: the weights are f32
  int threads_ = 1;
};

// gather_quantized, and dequantize, which takes all rows. Rows are widened to f32, a part at a time
// where y is of 16 bits.
class RowsOfQuantized {
 public:
  static bool select(const plait_op_desc& d, plait_choice&, std::string& why) {
    const Rows rows = rows_of(d);
    const uint32_t dtype = d.outputs[0].dtype;
    const bool taken = dtype == PLAIT_F32 || dtype == PLAIT_BF16 || dtype == PLAIT_F16;
    if (!taken)
      why = std::string("gives f32, bf16 and f16, found ") + kit::dtype_name(dtype);
    else if (machine_isa() == Isa::plain)
      why = "the machine has no AVX2 with FMA";
    else
      why = std::to_string(rows.count) + " rows divided among threads";
    return taken && machine_isa() != Isa::plain;
  }
  RowsOfQuantized(plait_device*, const plait_op_desc& d)
      : p_(rows_of(d)),
        y_(d.n_inputs),
        bytes_per_number_(static_cast<int64_t>(kit::dtype_bytes(d.outputs[0].dtype))) {
    if (d.outputs[0].dtype != PLAIT_F32) narrow_ = narrow_function(d.outputs[0].dtype);
    const QuantizedFunctions f =
        machine_isa() == Isa::avx512 ? quantized_avx512() : quantized_avx2();
    widen_ = p_.weights.nf4() ? f.widen_nf4 : f.widen;
    constexpr double kNanosecondsPerElement = 0.2;
    const auto elements = static_cast<double>(p_.count * p_.weights.columns);
    threads_ = choose_num_threads(d.threads, elements * kNanosecondsPerElement, p_.count);
  }
  void run(plait_queue*, void* const* operands, void*) const {
    const kit::Quantized& w = p_.weights;
    in_parallel(threads_, p_.count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t id = y_ == 2 ? i : support::read_index(p_.index, operands[2], i);
        const int64_t row = p_.known(id) ? id - p_.first : -1;
        char* to = static_cast<char*>(operands[y_]) + i * w.columns * bytes_per_number_;
        if (row >= 0 && row < w.rows)
          put({static_cast<const uint8_t*>(operands[0]) + row * w.bytes(),
               static_cast<const float*>(operands[1]) + row * w.floats(), w.number_bytes()},
              to);
        else
          fill(p_.known(id) ? 0 : std::numeric_limits<float>::quiet_NaN(), to);
      }
    });
  }

 private:
  using Rows = kit::GatherQuantized;
  static Rows rows_of(const plait_op_desc& d) {
    if (d.n_inputs == 3) return kit::parse_gather_quantized(d);
    Rows all;
    all.weights = kit::parse_dequantize(d);
    all.rows = all.count = all.total = all.weights.rows;
    return all;
  }

  static constexpr int64_t kPart = 1024;  // columns
  // Calls make(first, n, to) for f32 of parts of a row.
  template <class Make>
  void parts(char* to, const Make& make) const {
    const int64_t columns = p_.weights.columns;
    if (!narrow_) return make(0, columns, reinterpret_cast<float*>(to));
    float wide[kPart];
    for (int64_t i = 0; i < columns; i += kPart) {
      const int64_t n = std::min(kPart, columns - i);
      make(i, n, wide);
      narrow_(wide, reinterpret_cast<uint16_t*>(to) + i, n);
    }
  }
  void put(const QuantizedRow& row, char* to) const {
    parts(to, [&](int64_t first, int64_t n, float* part) { widen_(row, first, n, part); });
  }
  void fill(float value, char* to) const {
    parts(to, [&](int64_t, int64_t n, float* part) { std::fill(part, part + n, value); });
  }

  Rows p_;
  uint32_t y_;  // operand
  int64_t bytes_per_number_;
  NarrowFunction narrow_ = nullptr;  // null: y is f32
  WidenQuantized widen_ = nullptr;
  int threads_ = 1;
};

class MatmulOfQuantized {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const QuantizedDesc m = quantized_desc(d);
    for (uint32_t i = 0; i < d.n_inputs + d.n_outputs; ++i) {
      const uint32_t type = (i < d.n_inputs ? d.inputs[i] : d.outputs[i - d.n_inputs]).dtype;
      if (type != PLAIT_F32 && i != kNumbers) {
        why = std::string("takes f32 only, found ") + kit::dtype_name(type);
        return false;
      }
    }
    const KernelChoice kernel = QuantizedMatmul::choose(m);
    choice.workspace = kernel.workspace_bytes;
    why = kernel.kernel + (kernel.kernel.empty() ? "" : ", ") + kernel.why;
    return !kernel.kernel.empty();
  }
  MatmulOfQuantized(plait_device*, const plait_op_desc& d)
      : desc_(quantized_desc(d)),
        kernel_(desc_),
        y_(d.n_inputs),
        bytes_(kit::bytes(d.outputs[0])) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    QuantizedArgs args;
    args.a = static_cast<const float*>(operands[0]);
    args.numbers = static_cast<const uint8_t*>(operands[kNumbers]);
    args.scales = static_cast<const float*>(operands[2]);
    if (desc_.bias) args.bias = static_cast<const float*>(operands[3]);
    args.c = static_cast<float*>(operands[y_]);
    args.workspace = workspace;
    if (desc_.accumulate && operands[y_ - 1] != operands[y_])
      std::memcpy(operands[y_], operands[y_ - 1], bytes_);
    kernel_.run(args);
  }

 private:
  static constexpr uint32_t kNumbers = 1;  // operand

  QuantizedDesc desc_;
  QuantizedMatmul kernel_;
  uint32_t y_;  // operand
  uint64_t bytes_;
};

}  // namespace

void add_quantized(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<Quantize>("fast", "quantize", kDevice, kFastPriority));
  for (const char* op : {"dequantize", "gather_quantized"})
    out.push_back(kernel<RowsOfQuantized>("fast", op, kDevice, kFastPriority));
  out.push_back(kernel<MatmulOfQuantized>("fast", "matmul_quantized", kDevice, kFastPriority));
  out.push_back(
      kernel<Widened<MatmulOfQuantized>>("widened", "matmul_quantized", kDevice, kWidenedPriority));
}

}  // namespace plait::cpu

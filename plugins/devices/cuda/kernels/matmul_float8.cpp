// matmul_f8 on the device: by the tensor cores of 8 bits through cuBLASLt, where the GPU has them
// (compute capability 8.9) and the extents are multiples of 16; else a product of bf16, which holds
// every number of 8 bits exactly, scales included; a plain kernel is last.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kit/dtype.hpp"
#include "kit/ops/float8.hpp"
#include "plugins/devices/cuda/kernels/float8_args.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/matmul/as_matmul.hpp"
#include "plugins/devices/cuda/matmul/product.hpp"
#include "plugins/devices/cuda/matmul/product_args.hpp"

namespace plait::cuda {
namespace {

kit::MatmulF8 parse_product(const plait_op_desc& d) {
  return with_known_activation(kit::parse_matmul_f8(d));
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + kProductAlignment - 1) / kProductAlignment * kProductAlignment;
}

// The operands of matmul_f8 as its own kernels take them.
class Operands {
 public:
  explicit Operands(const plait_op_desc& d) : p_(parse_product(d)), args_(p_, d, 4) {
    args_.fixed.each_a = p_.rows_a, args_.fixed.each_b = p_.rows_b;
    args_.fixed.type_a = d.inputs[0].dtype, args_.fixed.type_b = d.inputs[1].dtype;
  }
  const kit::MatmulF8& op() const { return p_; }
  MatmulF8Args args(void* const* operands) const {
    MatmulF8Args args = args_.of(operands);
    args.a = static_cast<const uint8_t*>(operands[0]);
    args.b = static_cast<const uint8_t*>(operands[1]);
    args.scale_a = static_cast<const float*>(operands[2]);
    args.scale_b = static_cast<const float*>(operands[3]);
    return args;
  }

 private:
  kit::MatmulF8 p_;
  ProductArgs<MatmulF8Args> args_;
};

class PlainMatmulF8 {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_product(d);
    choice.workspace = 0;
    why = "a thread for each element, in double";
    return true;
  }
  PlainMatmulF8(plait_device* device, const plait_op_desc& d)
      : operands_(d), function_(device, "float8", "matmul_f8_plain") {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    const MatmulF8Args args = operands_.args(operands);
    function_.launch(queue, {blocks_for(args.m * args.n, kFloat8Threads)}, kFloat8Threads, args);
  }

 private:
  Operands operands_;
  Function function_;
};

// The same product of operands that are widened to bf16, which lie before the workspace of it.
struct WideProduct : AsMatmul {
  explicit WideProduct(const plait_op_desc& d)
      : AsMatmul(d, with_dtype(d.inputs[0], PLAIT_BF16), with_dtype(d.inputs[1], PLAIT_BF16), 4) {}
  uint64_t b_at() const { return aligned(a_bytes()); }
  uint64_t inner_at() const { return b_at() + aligned(b_bytes()); }
  uint64_t bytes() const { return inner_at() + workspace(); }
};

// A product of bf16.
class Widened {
 public:
  Widened(plait_device* device, const plait_op_desc& d, const kit::MatmulF8& p)
      : a_{nullptr, nullptr, nullptr, p.m * p.k, p.k, p.rows_a, d.inputs[0].dtype, 0},
        b_{nullptr, nullptr, nullptr, p.n * p.k, p.k, p.rows_b, d.inputs[1].dtype, 0},
        widen_(device, "float8", "widen_f8") {
    const WideProduct product(d);
    b_at_ = product.b_at();
    inner_at_ = product.inner_at();
    product_ = product.prepare(device);
  }
  void run(plait_queue* queue, void* const* operands, char* workspace) const {
    widen(queue, a_, operands[0], operands[2], workspace);
    widen(queue, b_, operands[1], operands[3], workspace + b_at_);
    product_.run(queue, workspace, workspace + b_at_, operands, workspace + inner_at_);
  }

 private:
  void widen(plait_queue* queue, WidenF8Args args, const void* q, const void* scale,
             char* to) const {
    args.q = static_cast<const uint8_t*>(q);
    args.scale = static_cast<const float*>(scale);
    args.w = reinterpret_cast<uint16_t*>(to);
    widen_.launch(queue, {blocks_for(args.count, kFloat8Threads)}, kFloat8Threads, args);
  }

  WidenF8Args a_, b_;
  Function widen_;
  uint64_t b_at_ = 0, inner_at_ = 0;  // in the workspace
  PreparedMatmul product_;
};

// Where cuBLASLt takes the scales and can write y, it does everything; else it leaves the product
// in f32 in the workspace, and our kernel does the rest.
struct NarrowProduct {
  ProductDesc product;
  bool scaled = false;  // cuBLASLt multiplies by the scales
  bool passes = false;  // our kernel writes y
  uint64_t z_at = 0, bytes = 0;

  // takes_rows: cuBLASLt takes a scale for each row of both operands.
  NarrowProduct(const kit::MatmulF8& p, uint32_t type_a, uint32_t type_b, uint32_t y_type,
                bool takes_rows) {
    const bool rows = takes_rows && p.rows_a && p.rows_b;
    scaled = rows || (!p.rows_a && !p.rows_b);
    passes = !scaled || p.bias || p.activation != "none" || y_type == PLAIT_F64;
    product = {1, p.m, p.n, p.k, 0, 0, false, true};
    product.type = type_a;
    product.type_b = type_b;
    product.y_type = passes ? uint32_t{PLAIT_F32} : y_type;
    product.scales = !scaled ? Scales::none : rows ? Scales::rows : Scales::one;
    product.accumulate = p.accumulate && !passes;
    product.workspace = product_workspace(1, p.m, p.n);
    z_at = product.workspace;
    bytes = z_at + (passes ? aligned(static_cast<uint64_t>(p.m * p.n) * sizeof(float)) : 0);
  }
};

class MatmulF8 {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::MatmulF8 p = parse_product(d);
    if (p.m == 0 || p.n == 0 || p.k == 0) {
      why = "no product: an extent is 0";
      return false;
    }
    const WideProduct wide(d);
    if (!wide.found()) {
      why = "no kernel of matmul takes the product of bf16";
      return false;
    }
    // What it needs where cuBLASLt does not take the scales.
    const NarrowProduct narrow = narrow_of(p, d, false);
    constexpr uint64_t kGiven = 64;  // the alignment of a workspace of the engine
    choice.workspace = wide.bytes();
    if (fits(p)) choice.workspace = std::max(choice.workspace, narrow.bytes);
    choice.workspace += kProductAlignment - kGiven;
    why = fits(p) ? "cuBLASLt of 8 bits from compute capability 8.9 on, else of bf16"
                  : "an extent is no multiple of 16: cuBLASLt of bf16, no faster than bf16";
    if (!fits(p) || !narrow.passes) return true;
    why += narrow.scaled                  ? "; y behind it"
           : narrow_of(p, d, true).passes ? "; scales behind it"
                                          : "; scales of rows by it on Hopper, else behind it";
    return true;
  }
  MatmulF8(plait_device* device, const plait_op_desc& d)
      : operands_(d),
        narrow_(narrow_of(operands_.op(), d, device_of(device).architecture() / 10 == kHopper)) {
    if (fits(operands_.op()) && device_of(device).architecture() >= 89) {
      auto& handle = device_of(device).shared<CublasLtHandle>();
      // A pass of ours multiplies by scales of rows at no cost: then cuBLASLt is not asked to.
      const bool rows = narrow_.product.scales == Scales::rows;
      if ((rows && narrow_.passes) || (!found(handle) && rows)) {
        narrow_ = narrow_of(operands_.op(), d, false);
        found(handle);
      }
      if (product_) {
        if (narrow_.passes) pass_ = Function(device, "float8", "matmul_f8_epilogue");
        return;
      }
      device_of(device).host().log(
          PLAIT_LOG_WARN, "[cuda] cuBLASLt has no algorithm for " + text(narrow_.product) + " of " +
                              kit::dtype_name(d.inputs[0].dtype) + " and " +
                              kit::dtype_name(d.inputs[1].dtype) + ": it is computed in bf16");
    }
    wide_.emplace(device, d, operands_.op());
  }
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    constexpr uintptr_t kMask = kProductAlignment - 1;
    auto* scratch =
        reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(workspace) + kMask) & ~kMask);
    if (wide_) return wide_->run(queue, operands, scratch);
    MatmulF8Args args = operands_.args(operands);
    args.z = reinterpret_cast<const float*>(scratch + narrow_.z_at);
    args.scaled = narrow_.scaled;
    void* y = narrow_.passes ? scratch + narrow_.z_at : args.y.data;
    product_->run(stream_of(queue), {operands[0], operands[1], nullptr, args.c.data, y, scratch,
                                     operands[2], operands[3]});
    if (!narrow_.passes) return;
    constexpr int64_t kPerThread = 4;
    pass_.launch(queue, {blocks_of_stride(args.m * args.n, kFloat8Threads * kPerThread)},
                 kFloat8Threads, args);
  }

 private:
  // The GPUs of which cuBLASLt promises scales of rows: compute capability 9.x.
  static constexpr int kHopper = 9;
  static NarrowProduct narrow_of(const kit::MatmulF8& p, const plait_op_desc& d, bool takes_rows) {
    return {p, d.inputs[0].dtype, d.inputs[1].dtype, d.outputs[0].dtype, takes_rows};
  }
  // Whether cuBLASLt has an algorithm for narrow_; product_ is then that product.
  bool found(CublasLtHandle& handle) {
    product_.emplace(handle, narrow_.product);
    if (!product_->found()) product_.reset();
    return product_.has_value();
  }
  // What cuBLASLt asks of products of 8 bits.
  static bool fits(const kit::MatmulF8& p) {
    constexpr int64_t kMultiple = 16;
    return p.m % kMultiple == 0 && p.n % kMultiple == 0 && p.k % kMultiple == 0;
  }

  Operands operands_;
  NarrowProduct narrow_;
  std::optional<Product> product_;
  std::optional<Widened> wide_;
  Function pass_;
};

}  // namespace

void add_matmul_float8(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<MatmulF8>("cublaslt", "matmul_f8", "cuda", 10));
  out.push_back(kernel<PlainMatmulF8>("plain", "matmul_f8", "cuda", 0));
}

}  // namespace plait::cuda

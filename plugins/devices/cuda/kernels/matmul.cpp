// The op `matmul` by cuBLASLt. What it has no epilogue for is done by kernels of ours behind the
// product, in the same run().
#include <algorithm>
#include <cstring>
#include <optional>

#include "kit/dtype.hpp"
#include "kit/ops/matmul.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/matmul_epilogue_args.hpp"
#include "plugins/devices/cuda/matmul/plain.hpp"
#include "plugins/devices/cuda/matmul/product.hpp"
#include "plugins/devices/cuda/matmul/tune.hpp"
#include "plugins/support/activation.hpp"

namespace plait::cuda {
namespace {

using support::Activation;

// cuBLASLt does not document what the ReLU of its epilogue makes of NaN, which must stay. false:
// our kernel does it behind the product.
constexpr bool kReluInEpilogue = true;

bool is_half(uint32_t type) { return type == PLAIT_BF16 || type == PLAIT_F16; }

// How a call is carried out, without a GPU: what select() answers, and what the kernel then does.
struct MatmulPlan {
  kit::Matmul op;
  ProductDesc product;  // where multiplies
  Activation activation = Activation::none;
  uint32_t bias_type = 0, y_type = 0, squares_type = 0;
  uint32_t y = 0;           // operand
  bool multiplies = false;  // y has elements, and k is not 0
  // The product lies in the workspace, in the type of its sums, until it is rounded into y.
  bool wide = false;
  bool passes = false;         // our kernel adds bias and sum, and does the activation
  bool converts_bias = false;  // to the type that the product adds
  // Where the parts of the workspace begin: what the product uses, the wide product, the bias, the
  // parts of the sum of squares.
  uint64_t wide_at = 0, bias_at = 0, parts_at = 0, bytes = 0;
  int64_t parts = 0;

  explicit MatmulPlan(const plait_op_desc& d);
  int64_t rows() const { return op.batch * op.m; }
  int64_t count() const { return rows() * op.n; }

 private:
  void choose_path(uint32_t type);
  void place();
};

MatmulPlan::MatmulPlan(const plait_op_desc& d)
    : op(kit::parse_matmul(d, kit::Tf32::kKnown)), y(d.n_inputs) {
  activation = support::activation_named(op.activation);
  y_type = d.outputs[0].dtype;
  bias_type = op.bias ? d.inputs[2].dtype : y_type;
  squares_type = op.squares ? d.outputs[1].dtype : 0;
  multiplies = op.batch > 0 && op.m > 0 && op.n > 0 && op.k > 0;
  choose_path(d.inputs[0].dtype);
  place();
}

// An epilogue of cuBLASLt rounds once, as our kernel does behind a wide product. It serves a y of
// 16 bits; its GELU approximates tanh too coarsely for f32, and f64 has no epilogues. The bias is
// added in the type of y, so one of f32 is rounded to 16 bits first, as elsewhere in mixed
// precision: a wide product would move 3 times the bytes of y.
void MatmulPlan::choose_path(uint32_t type) {
  const bool direct = product_takes(type, y_type);
  const bool relu = kReluInEpilogue && activation == Activation::relu && y_type != PLAIT_F64;
  const bool gelu = activation == Activation::gelu_tanh && is_half(y_type);
  const bool fused = activation == Activation::none || relu || gelu;
  wide = multiplies && (!direct || (is_half(y_type) && !fused));
  passes = !multiplies || wide || !fused || (op.bias && y_type == PLAIT_F64);
  product = {op.batch, op.m, op.n, op.k, op.stride_a, op.stride_b, op.transpose_a, op.transpose_b};
  product.type = type;
  product.y_type = !wide ? y_type : type == PLAIT_F64 ? PLAIT_F64 : PLAIT_F32;
  product.tf32 = op.tf32;
  product.accumulate = op.accumulate && !passes;
  product.bias = op.bias && !passes;
  if (!passes && relu) product.epilogue = Epilogue::relu;
  if (!passes && gelu) product.epilogue = Epilogue::gelu_tanh;
  converts_bias = product.bias && bias_type != y_type;
}

void MatmulPlan::place() {
  uint64_t at = multiplies ? product_workspace(op.batch, op.m, op.n) : 0;
  product.workspace = at;
  const auto part = [&](uint64_t bytes) {
    const uint64_t begin = at;
    at += (bytes + kProductAlignment - 1) / kProductAlignment * kProductAlignment;
    return begin;
  };
  const auto of = [](int64_t count, uint32_t type) {
    return static_cast<uint64_t>(count) * kit::dtype_bytes(type);
  };
  wide_at = part(wide ? of(count(), product.y_type) : 0);
  bias_at = part(converts_bias ? of(op.n, y_type) : 0);
  constexpr int64_t kPerPart = 4096, kMostParts = 1024;
  if (op.squares) parts = std::min((count() + kPerPart - 1) / kPerPart, kMostParts);
  parts_at = part(of(parts, PLAIT_F64));
  constexpr uint64_t kGiven = 64;  // the alignment of a workspace of the engine
  bytes = at > 0 ? at + kProductAlignment - kGiven : 0;
}

std::string describe(const MatmulPlan& p) {
  if (!p.multiplies) return "no product: an extent is 0";
  std::string text = p.product.tf32 ? "cuBLASLt, operands rounded to TF32" : "cuBLASLt";
  text += ", sums in ";
  text += p.product.type == PLAIT_F64 ? "f64" : "f32";
  if (p.converts_bias) text += std::string("; bias as ") + kit::dtype_name(p.y_type);
  if (p.product.epilogue != Epilogue::none) text += "; " + p.op.activation + " in its epilogue";
  if (p.wide)
    text +=
        std::string("; rounded from ") + kit::dtype_name(p.product.y_type) + " in the workspace";
  if (p.passes && p.activation != Activation::none) text += "; " + p.op.activation + " behind it";
  return text;
}

// Threads of a block that share a row: enough for its columns, a power of 2.
uint32_t lanes_for(int64_t threads) {
  uint32_t lanes = 1;
  while (lanes < kMatmulThreads && lanes < threads) lanes *= 2;
  return lanes;
}

class CublasLtMatmul {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const MatmulPlan plan(d);
    if (plan.op.batch > INT32_MAX) {
      why = "more than " + std::to_string(INT32_MAX) + " products in a batch";
      return false;
    }
    // The plain kernel may have to compute it.
    choice.workspace = std::max(PlainMatmul::workspace(plan.op), plan.bytes);
    why = describe(plan);
    return true;
  }
  CublasLtMatmul(plait_device* device, const plait_op_desc& d) : plan_(d) {
    if (plan_.multiplies) find_product(device, d);
    if (plain_) return;
    const auto load = [&](const std::string& name) {
      return Function(device_of(device).function("matmul_epilogue", name), "a kernel of matmul");
    };
    const auto name = [](uint32_t type) { return std::string(kit::dtype_name(type)); };
    if (plan_.passes) {
      const uint32_t z = plan_.multiplies ? plan_.product.y_type : sums_of_nothing();
      at_once_ = z == PLAIT_F64 || plan_.y_type == PLAIT_F64 ? 2 : 4;
      const bool whole = plan_.op.n % at_once_ == 0;
      if (!whole) at_once_ = 1;
      pass_ = load("matmul_epilogue_" + name(z) + "_" + name(plan_.y_type) + (whole ? "" : "_1"));
    }
    if (plan_.converts_bias) bias_ = load("matmul_bias");
    if (plan_.op.squares) {
      squares_ = load("matmul_squares_" + name(plan_.y_type));
      total_ = load("matmul_squares_total");
    }
  }

  plait_algorithm tune(plait_device* device) const {
    plait_algorithm to{};
    if (!product_ || plain_) return to;
    auto& handle = device_of(device).shared<CublasLtHandle>();
    const auto fastest = fastest_algorithm(device_of(device), handle, plan_.product);
    static_assert(sizeof fastest == sizeof to);
    std::memcpy(&to, &fastest, sizeof to);
    return to;
  }
  void adopt(const plait_algorithm& from) {
    if (!product_ || plain_) return;
    cublasLtMatmulAlgo_t algorithm;
    std::memcpy(&algorithm, &from, sizeof algorithm);
    product_->use(algorithm);
  }

  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    if (plain_) return plain_->run(queue, operands, workspace);
    constexpr uintptr_t kMask = kProductAlignment - 1;
    auto* scratch =
        reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(workspace) + kMask) & ~kMask);
    if (product_) multiply(queue, operands, scratch);
    if (plan_.passes) pass(queue, operands, scratch);
    if (plan_.op.squares) square(queue, operands, scratch);
  }

 private:
  // Without an algorithm that has the epilogue, the product is rounded into y, and our kernel does
  // the rest in place: it rounds again. Without any, the plain kernel does everything.
  void find_product(plait_device* device, const plait_op_desc& d) {
    auto& handle = device_of(device).shared<CublasLtHandle>();
    product_.emplace(handle, plan_.product);
    const bool has_epilogue = plan_.product.bias || plan_.product.epilogue != Epilogue::none;
    if (!product_->found() && has_epilogue) {
      plan_.product.bias = plan_.converts_bias = false;
      plan_.product.epilogue = Epilogue::none;
      plan_.passes = true;
      product_.emplace(handle, plan_.product);
    }
    if (product_->found()) return;
    device_of(device).host().log(PLAIT_LOG_WARN,
                                 "[cuda] cuBLASLt " + cublaslt_version_text(handle.lt().version) +
                                     " has no algorithm for " + text(plan_.product) + " of " +
                                     kit::dtype_name(plan_.product.type) +
                                     ": a plain kernel computes it, slowly");
    plain_.emplace(device, d);
  }
  // Without a product any type of sums will do that the pass has for y.
  uint32_t sums_of_nothing() const { return plan_.y_type == PLAIT_F64 ? PLAIT_F64 : PLAIT_F32; }

  void multiply(plait_queue* queue, void* const* operands, char* scratch) const {
    const void* bias = plan_.op.bias ? operands[2] : nullptr;
    if (plan_.converts_bias) {
      const MatmulBiasArgs args = {{operands[2], plan_.bias_type, 0},
                                   {scratch + plan_.bias_at, plan_.y_type, 0},
                                   plan_.op.n};
      bias_.launch(queue, {blocks_of_stride(plan_.op.n, kMatmulThreads)}, kMatmulThreads, args);
      bias = args.to.data;
    }
    product_->run(stream_of(queue),
                  {operands[0], operands[1], bias, operands[plan_.y - 1],
                   plan_.wide ? scratch + plan_.wide_at : operands[plan_.y], scratch});
  }

  void pass(plait_queue* queue, void* const* operands, const char* scratch) const {
    const void* z = !plan_.multiplies ? nullptr
                    : plan_.wide      ? scratch + plan_.wide_at
                                      : operands[plan_.y];
    const int64_t rows = plan_.rows(), columns = plan_.op.n;
    const uint32_t lanes = lanes_for((columns + at_once_ - 1) / at_once_);
    const MatmulEpilogueArgs args = {z,
                                     plan_.op.accumulate ? operands[plan_.y - 1] : nullptr,
                                     operands[plan_.y],
                                     {plan_.op.bias ? operands[2] : nullptr, plan_.bias_type, 0},
                                     rows,
                                     columns,
                                     lanes,
                                     static_cast<uint32_t>(plan_.activation)};
    constexpr int64_t kRowsOfThread = 4;
    const Grid grid = {
        blocks_for(columns, lanes * at_once_),
        blocks_of_stride(rows, kMatmulThreads / lanes * kRowsOfThread, kMostBlocksY)};
    pass_.launch(queue, grid, kMatmulThreads, args);
  }

  void square(plait_queue* queue, void* const* operands, char* scratch) const {
    auto* parts = reinterpret_cast<double*>(scratch + plan_.parts_at);
    const MatmulPartsArgs args = {operands[plan_.y], plan_.count(), parts};
    squares_.launch(queue, {static_cast<unsigned>(plan_.parts)}, kMatmulThreads, args);
    const MatmulTotalArgs total = {
        parts, plan_.parts, {operands[plan_.y + 1], plan_.squares_type, 0}};
    total_.launch(queue, {1}, kMatmulThreads, total);
  }

  MatmulPlan plan_;
  std::optional<Product> product_;
  std::optional<PlainMatmul> plain_;
  Function pass_, bias_, squares_, total_;
  int64_t at_once_ = 1;  // elements of a row that a thread of the pass takes at once
};

}  // namespace

void add_matmul(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CublasLtMatmul>("cublaslt", "matmul", "cuda", 10));
}

}  // namespace plait::cuda

// The products of a training step. x (m,k) W^T is the forward pass, dy W the gradient of x, dy^T x
// that of W, which is added to a sum in f32.
#include <algorithm>
#include <stdexcept>

#include "kit/dtype.hpp"
#include "plugins/devices/cuda/matmul/product.hpp"
#include "tests/bench/cuda/op.hpp"

namespace cuda_bench {
namespace {

using plait::cuda::CublasLtHandle;
using plait::cuda::Epilogue;
using plait::cuda::Product;
using plait::cuda::ProductDesc;

struct Layer {
  const char* name;
  int64_t tokens, outputs, inputs;
  bool bias = false;
  const char* activation = "none";
};

constexpr Layer kLayers[] = {
    {"124M q, k, v", 65536, 2304, 768, true},
    {"124M attention out", 65536, 768, 768, true},
    {"124M up", 65536, 3072, 768, true, "gelu_tanh"},
    {"124M down", 65536, 768, 3072, true},
    {"124M logits", 8192, 50257, 768},
    {"1.5B q, k, v", 32768, 2048, 1536},
    {"1.5B attention out", 32768, 1536, 1536},
    {"1.5B gate, up", 32768, 17920, 1536},
    {"1.5B down", 32768, 1536, 8960},
    {"7B q, k, v", 4096, 12288, 4096},
    {"7B attention out", 4096, 4096, 4096},
    {"7B gate, up", 4096, 22016, 4096},
    {"7B down", 4096, 4096, 11008},
};

// One measurement, in the words of the op.
struct Shape {
  std::string name;
  uint32_t type = PLAIT_BF16, y_type = PLAIT_BF16;
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false, bias = false, accumulate = false;
  const char* activation = "none";
};

std::vector<Shape> shapes() {
  std::vector<Shape> out;
  const auto layer = [&](const Layer& l, uint32_t type, bool forward_only = false) {
    const std::string name = l.name;
    out.push_back({name + ", forward", type, type, l.tokens, l.outputs, l.inputs, 1, false, true,
                   l.bias, false, l.activation});
    if (forward_only) return;
    out.push_back({name + ", dx", type, type, l.tokens, l.inputs, l.outputs});
    out.push_back({name + ", dW", type, PLAIT_F32, l.outputs, l.inputs, l.tokens, 1, true, false,
                   false, true});
  };
  out.push_back({"8192 cubed", PLAIT_BF16, PLAIT_BF16, 8192, 8192, 8192});
  for (const Layer& l : kLayers) layer(l, PLAIT_BF16);
  out.push_back(
      {"4096 cubed, both transposed", PLAIT_BF16, PLAIT_BF16, 4096, 4096, 4096, 1, true, true});
  layer({"f16 7B down", 4096, 4096, 11008}, PLAIT_F16, true);
  layer({"MLP 4 x 2048", 1024, 2048, 2048, true, "relu"}, PLAIT_F32);
  layer({"MLP 784-120", 32, 120, 784, true, "relu"}, PLAIT_F32);
  layer({"MLP 120-84", 32, 84, 120, true, "relu"}, PLAIT_F32);
  out.push_back(
      {"attention scores of 96 heads", PLAIT_BF16, PLAIT_BF16, 1024, 1024, 64, 96, false, true});
  out.push_back({"f64 2048 cubed", PLAIT_F64, PLAIT_F64, 2048, 2048, 2048});
  return out;
}

conformance::Case case_of(const Shape& s) {
  using namespace conformance;
  const auto matrix = [&](uint32_t type, int64_t rows, int64_t columns) {
    return s.batch == 1 ? shape(type, {rows, columns}) : shape(type, {s.batch, rows, columns});
  };
  Case c{
      s.name,
      "matmul",
      {{s.transpose_a ? matrix(s.type, s.k, s.m) : matrix(s.type, s.m, s.k)},
       {s.transpose_b ? matrix(s.type, s.n, s.k) : matrix(s.type, s.k, s.n)}},
      {matrix(s.y_type, s.m, s.n)},
      {flag("transpose_a", s.transpose_a), flag("transpose_b", s.transpose_b), flag("bias", s.bias),
       flag("accumulate", s.accumulate), text("activation", s.activation)}};
  if (s.bias) c.inputs.push_back({shape(PLAIT_F32, {s.n})});
  if (s.accumulate) {
    c.inputs.push_back({c.outputs[0]});
    c.in_place = {2};
  }
  return c;
}

// What the plugin asks of cuBLASLt for the shape, as far as that has it.
ProductDesc desc_of(const Shape& s) {
  ProductDesc d{s.batch, s.m, s.n, s.k, s.m * s.k, s.k * s.n, s.transpose_a, s.transpose_b};
  d.type = s.type;
  d.y_type = s.y_type;
  d.bias = s.bias;
  d.accumulate = s.accumulate;
  const std::string activation = s.activation;
  if (activation == "relu") d.epilogue = Epilogue::relu;
  if (activation == "gelu_tanh") d.epilogue = Epilogue::gelu_tanh;
  d.workspace = plait::cuda::product_workspace(s.batch, s.m, s.n);
  return d;
}

void enqueue(Lab& lab, const Product& product, const ProductDesc& d) {
  const auto bytes = [&](int64_t count, uint32_t type) {
    return static_cast<uint64_t>(count) * plait::kit::dtype_bytes(type);
  };
  void* y = lab.results().take(bytes(d.batch * d.m * d.n, d.y_type));
  product.run(lab.stream(), {lab.floats().take(bytes(d.batch * d.m * d.k, d.type)),
                             lab.floats().take(bytes(d.batch * d.k * d.n, d.type)),
                             d.bias ? lab.floats().take(bytes(d.n, d.y_type)) : nullptr, y, y,
                             lab.workspace(d.workspace)});
}

double flops(const Shape& s) {
  return 2 * static_cast<double>(s.batch * s.m) * static_cast<double>(s.n) *
         static_cast<double>(s.k);
}

// Milliseconds of the plugin's kernel, and of the best algorithm among the first 32: the four that
// are fastest in a first round are timed again beside the plugin's.
struct Times {
  double ours, best;
  int algorithms;
};
Times times_of(Lab& lab, CublasLtHandle& handle, const Shape& s, Op& ours) {
  constexpr int kAlgorithms = 32, kRefined = 4, kFinal = 7;
  constexpr double kSmall = 1e9;  // FLOP; less takes no longer than its launch
  const ProductDesc d = desc_of(s);
  const Product first(handle, d);
  std::vector<std::pair<double, cublasLtMatmulAlgo_t>> timed;
  const auto algorithms = first.algorithms(kAlgorithms);
  const bool small = flops(s) < kSmall;
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
    Product p = first;
    p.use(algorithm);
    const auto work = [&] { enqueue(lab, p, d); };
    timed.emplace_back(small ? lab.milliseconds(work, 1) : lab.once(work), algorithm);
  }
  std::sort(timed.begin(), timed.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  timed.resize(std::min<size_t>(timed.size(), kRefined));
  std::vector<Lab::Work> works{[&] { ours.enqueue(); }};
  for (const auto& [time, algorithm] : timed) {
    Product p = first;
    p.use(algorithm);
    works.push_back([&lab, &d, p] { enqueue(lab, p, d); });
  }
  const auto found = lab.compare(works, kFinal);
  const double best = found.size() > 1 ? *std::min_element(found.begin() + 1, found.end()) : 0;
  return {found[0], best, static_cast<int>(algorithms.size())};
}

}  // namespace

void bench_products(Lab& lab, Report& report, double seconds) {
  CublasLtHandle handle("");
  for (const Shape& s : shapes()) {
    const std::string name = s.name + " (" + std::to_string(s.m) + "," + std::to_string(s.n) + "," +
                             std::to_string(s.k) + ") " + plait::kit::dtype_name(s.type);
    if (!report.wants("product", name)) continue;
    try {
      Op ours(lab, case_of(s), false);
      if (lab.elapsed() > seconds) throw std::runtime_error("no time left for " + ours.detail());
      const Times t = times_of(lab, handle, s, ours);
      report.line("product", name,
                  {{"ms", t.ours},
                   {"tflops", flops(s) / t.ours * 1e-9},
                   {"best", t.best > 0 ? flops(s) / t.best * 1e-9 : 0},
                   {"ratio", t.best / t.ours},
                   {"of", static_cast<double>(t.algorithms)}},
                  ours.detail());
    } catch (const std::exception& e) {
      report.skipped("product", name, e.what());
    }
  }
}

}  // namespace cuda_bench

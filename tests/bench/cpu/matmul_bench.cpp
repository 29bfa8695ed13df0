// The CPU device's matrix products compared with the machine's limit and with oneDNN, in one run.
//
//   matmul_bench [threads [part]]     default 1, all parts
//
// Part 1: the products of one training step of the MLP 784-120-84-10 at batch 32 (weights
// [out,in]), each alone and all eight in turn on shared operands, with the rate of a register-only
// FMA loop measured between the rounds.
// Part 2: the products of a 2048-wide layer at batch 1024, and at 128 as micro-batches that
// accumulate a gradient; our choice and oneDNN alternate.
// Part 3: what a decoding step of a language model multiplies, a few rows with weights (out,in)
// that
// come from memory, as bytes of weights per second; our choice, oneDNN and a loop that only reads
// the
// weights alternate. Several sets of weights take turns, so that no cache has them.
// Part 4: products with quantized weights (n,k), of a layer and of the gradient of its input,
// beside f32 and bf16, as GFLOP/s; all alternate.
// Times are medians over the rounds, of parts 3 and 4 the least; the limit is the fastest round of
// the FMA loop.

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/devices/cpu/matmul/matmul.hpp"
#include "plugins/devices/cpu/matmul/quantized.hpp"
#include "plugins/devices/cpu/matmul/quantized_dot.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace {

using plait::cpu::Activation;
using plait::cpu::Isa;
using plait::cpu::MatmulArgs;
using plait::cpu::MatmulDesc;
using plait::cpu::MatmulKernel;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Twelve independent chains of FMA in registers: more than latency times ports of any core so far.
// `sink` has space for all of them, so that the compiler keeps each.
#define PLAIT_FMA_LOOP(TARGET, NAME, VECTOR, LANES, SET, FMA, STORE)                  \
  __attribute__((target(TARGET), noinline)) double NAME(int64_t turns, float* sink) { \
    VECTOR a[12];                                                                     \
    for (int i = 0; i < 12; ++i) a[i] = SET(0.01f * static_cast<float>(i));           \
    const VECTOR x = SET(0.999f);                                                     \
    const VECTOR y = SET(0.0001f);                                                    \
    const Clock::time_point start = Clock::now();                                     \
    for (int64_t turn = 0; turn < turns; ++turn) {                                    \
      a[0] = FMA(a[0], x, y), a[1] = FMA(a[1], x, y), a[2] = FMA(a[2], x, y);         \
      a[3] = FMA(a[3], x, y), a[4] = FMA(a[4], x, y), a[5] = FMA(a[5], x, y);         \
      a[6] = FMA(a[6], x, y), a[7] = FMA(a[7], x, y), a[8] = FMA(a[8], x, y);         \
      a[9] = FMA(a[9], x, y), a[10] = FMA(a[10], x, y), a[11] = FMA(a[11], x, y);     \
    }                                                                                 \
    for (int i = 0; i < 12; ++i) STORE(sink + i * (LANES), a[i]);                     \
    return 12.0 * 2.0 * (LANES) * static_cast<double>(turns) / since(start);          \
  }
PLAIT_FMA_LOOP("avx512f", fma_rate_avx512, __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps,
               _mm512_storeu_ps)
PLAIT_FMA_LOOP("avx2,fma", fma_rate_avx2, __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps,
               _mm256_storeu_ps)

// FLOP/s of one core, measured for about 0.1 ms.
double fma_rate() {
  float sink[12 * 16];
  constexpr int64_t kTurns = 20000;
  switch (plait::cpu::machine_isa()) {
    case Isa::avx512:
      return fma_rate_avx512(kTurns, sink);
    case Isa::avx2:
      return fma_rate_avx2(kTurns, sink);
    case Isa::plain:
      break;
  }
  return 1.0;
}

// One region on huge pages, like the engine's arena.
class Arena {
 public:
  explicit Arena(size_t bytes) : bytes_(bytes) {
    constexpr size_t kHuge = size_t{2} << 20;
    base_ = static_cast<char*>(std::aligned_alloc(kHuge, (bytes + kHuge - 1) / kHuge * kHuge));
    madvise(base_, bytes, MADV_HUGEPAGE);
  }
  ~Arena() { std::free(base_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  float* floats(int64_t count) {
    float* result = reinterpret_cast<float*>(base_ + used_);
    used_ += (static_cast<size_t>(count) * sizeof(float) + 127) / 64 * 64;
    if (used_ > bytes_) std::abort();
    for (int64_t i = 0; i < count; ++i)
      result[i] = static_cast<float>(i * 2654435761u % 1000) * 1e-3f - 0.5f;
    return result;
  }

 private:
  size_t bytes_;
  char* base_;
  size_t used_ = 0;
};

struct Product {
  const char* name;
  MatmulDesc desc;
  MatmulArgs args;
  double flops() const {
    return 2.0 * static_cast<double>(desc.m) * static_cast<double>(desc.n) *
           static_cast<double>(desc.k);
  }
};

MatmulDesc shape(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, int threads) {
  MatmulDesc d;
  d.m = m;
  d.n = n;
  d.k = k;
  d.transpose_a = transpose_a;
  d.transpose_b = transpose_b;
  d.threads = threads;
  return d;
}

std::vector<Product> mlp_step(Arena& arena, int threads) {
  constexpr int64_t kBatch = 32, kIn = 784, kOne = 120, kTwo = 84, kOut = 10;
  float* x = arena.floats(kBatch * kIn);
  float* w1 = arena.floats(kOne * kIn);
  float* w2 = arena.floats(kTwo * kOne);
  float* w3 = arena.floats(kOut * kTwo);
  float* bias = arena.floats(kOne);
  float* y1 = arena.floats(kBatch * kOne);
  float* y2 = arena.floats(kBatch * kTwo);
  float* y3 = arena.floats(kBatch * kOut);
  float* d1 = arena.floats(kBatch * kOne);
  float* d2 = arena.floats(kBatch * kTwo);
  float* d3 = arena.floats(kBatch * kOut);
  float* g1 = arena.floats(kOne * kIn);
  float* g2 = arena.floats(kTwo * kOne);
  float* g3 = arena.floats(kOut * kTwo);
  void* workspace = arena.floats(1 << 20);
  const auto forward = [=](int64_t n, int64_t k, bool relu) {
    MatmulDesc d = shape(kBatch, n, k, false, true, threads);
    d.bias = true;
    if (relu) d.activation = Activation::relu;
    return d;
  };
  return {
      {"y1 = relu(x W1' + b)", forward(kOne, kIn, true), {x, w1, bias, y1, workspace}},
      {"y2 = relu(y1 W2' + b)", forward(kTwo, kOne, true), {y1, w2, bias, y2, workspace}},
      {"y3 = y2 W3' + b", forward(kOut, kTwo, false), {y2, w3, bias, y3, workspace}},
      {"dW3 = dY3' y2",
       shape(kOut, kTwo, kBatch, true, false, threads),
       {d3, y2, nullptr, g3, workspace}},
      {"dY2 = dY3 W3",
       shape(kBatch, kTwo, kOut, false, false, threads),
       {d3, w3, nullptr, d2, workspace}},
      {"dW2 = dY2' y1",
       shape(kTwo, kOne, kBatch, true, false, threads),
       {d2, y1, nullptr, g2, workspace}},
      {"dY1 = dY2 W2",
       shape(kBatch, kOne, kTwo, false, false, threads),
       {d2, w2, nullptr, d1, workspace}},
      {"dW1 = dY1' x",
       shape(kOne, kIn, kBatch, true, false, threads),
       {d1, x, nullptr, g1, workspace}},
  };
}

std::unique_ptr<MatmulKernel> make(const MatmulDesc& desc, const std::string& kernel) {
  return kernel == "chosen" ? plait::cpu::make_matmul(desc) : plait::cpu::make_matmul(desc, kernel);
}

// Seconds of one run, as the median of `rounds` rounds of at least 20 us.
double time_alone(const MatmulKernel& kernel, const Product& product, int rounds) {
  const int64_t repeats = std::max<int64_t>(1, static_cast<int64_t>(3e6 / product.flops()));
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < repeats; ++i) kernel.run(product.args);
    times.push_back(since(start) / static_cast<double>(repeats));
  }
  return median(times);
}

void bench_step(int threads) {
  Arena arena(size_t{8} << 20);
  const std::vector<Product> products = mlp_step(arena, threads);
  std::vector<std::string> columns = {"chosen", "onednn"};
  if (plait::cpu::machine_isa() == Isa::avx512) columns.insert(columns.begin() + 1, "jit_avx2");

  std::printf("MLP 784-120-84-10, batch 32, %d thread(s): products of one step\n%-24s", threads,
              "GFLOP/s alone");
  for (const std::string& column : columns) std::printf("%12s", column.c_str());
  std::printf("\n");
  std::vector<std::vector<std::unique_ptr<MatmulKernel>>> kernels(columns.size());
  double flops = 0;
  for (const Product& product : products) {
    flops += product.flops();
    std::printf("%-24s", product.name);
    for (size_t c = 0; c < columns.size(); ++c) {
      kernels[c].push_back(make(product.desc, columns[c]));
      const double seconds = time_alone(*kernels[c].back(), product, 301);
      std::printf("%12.1f", product.flops() / seconds * 1e-9);
    }
    std::printf("   %s\n", kernels[0].back()->name().data());
  }

  // All eight in turn, the columns alternating, with the limit in between.
  std::vector<std::vector<double>> times(columns.size());
  std::vector<std::vector<double>> shares(columns.size());
  double limit = 0;
  for (int round = 0; round < 2000; ++round) {
    for (size_t c = 0; c < columns.size(); ++c) {
      for (int turn = 0; turn < 2;
           ++turn) {  // the first turn brings the operands back to the cache
        const Clock::time_point start = Clock::now();
        for (size_t i = 0; i < products.size(); ++i) kernels[c][i]->run(products[i].args);
        if (turn == 1) times[c].push_back(since(start));
      }
      const double now = fma_rate();
      limit = std::max(limit, now);
      shares[c].push_back(flops / times[c].back() / now / threads);
    }
  }
  std::printf("FMA limit of a core: %.1f GFLOP/s; the step has %.2f MFLOP\n", limit * 1e-9,
              flops * 1e-6);
  for (size_t c = 0; c < columns.size(); ++c) {
    const double best = *std::min_element(times[c].begin(), times[c].end());
    std::printf(
        "%-12s step median %7.1f us, best %7.1f us; of the limit: median %5.1f %%, best %5.1f %%\n",
        columns[c].c_str(), median(times[c]) * 1e6, best * 1e6, 100 * median(shares[c]),
        100 * flops / best / limit / threads);
  }
}

void bench_wide(int threads, int64_t batch, bool adds) {
  constexpr int64_t kWidth = 2048;
  Arena arena(size_t{80} << 20);
  float* x = arena.floats(batch * kWidth);
  float* w = arena.floats(kWidth * kWidth);
  float* y = arena.floats(batch * kWidth);
  float* g = arena.floats(kWidth * kWidth);
  float* bias = arena.floats(kWidth);
  void* workspace = arena.floats(4 << 20);
  MatmulDesc forward = shape(batch, kWidth, kWidth, false, true, threads);
  forward.bias = true;
  forward.activation = Activation::relu;
  MatmulDesc gradient = shape(kWidth, kWidth, batch, true, false, threads);
  gradient.accumulate = adds;
  const Product products[] = {
      {"y = relu(x W' + b)", forward, {x, w, bias, y, workspace}},
      {"dX = dY W",
       shape(batch, kWidth, kWidth, false, false, threads),
       {x, w, nullptr, y, workspace}},
      {adds ? "dW += dY' x" : "dW = dY' x", gradient, {x, y, nullptr, g, workspace}},
  };
  std::printf("\n2048-wide layer, batch %lld, %d thread(s)\n", static_cast<long long>(batch),
              threads);
  double limit = fma_rate();
  for (const Product& product : products) {
    const auto ours = make(product.desc, "chosen");
    const auto theirs = make(product.desc, "onednn");
    std::vector<double> our_times;
    std::vector<double> their_times;
    for (int round = 0; round < 15; ++round) {
      limit = std::max(limit, fma_rate());
      our_times.push_back(time_alone(*ours, product, 1));
      their_times.push_back(time_alone(*theirs, product, 1));
    }
    const double us = product.flops() / median(our_times);
    const double them = product.flops() / median(their_times);
    std::printf("%-20s %-20s %6.1f GFLOP/s (%4.1f %%), oneDNN %6.1f (%4.1f %%), ratio %.3f\n",
                product.name, ours->name().data(), us * 1e-9, 100 * us / limit / threads,
                them * 1e-9, 100 * them / limit / threads, us / them);
  }
}

// Reads `count` floats on `threads` threads as fast as was found possible, asking for them ahead,
// and
// does as little as it may with them.
__attribute__((target("avx2"))) float read_part(const float* at, int64_t count) {
  __m256 sums[8] = {};
  for (int64_t i = 0; i + 64 <= count; i += 64) {
    for (int line = 0; line < 4; ++line) __builtin_prefetch(at + i + 2048 + 16 * line, 0, 2);
    for (int part = 0; part < 8; ++part)
      sums[part] = _mm256_add_ps(sums[part], _mm256_loadu_ps(at + i + 8 * part));
  }
  for (int part = 1; part < 8; ++part) sums[0] = _mm256_add_ps(sums[0], sums[part]);
  return _mm256_cvtss_f32(sums[0]);
}
void read_all(const float* at, int64_t count, int threads, float* sink) {
  plait::cpu::in_parallel(threads, count / 1024, [&](int64_t first, int64_t last) {
    sink[first] = read_part(at + first * 1024, (last - first) * 1024);
  });
}

// The least seconds of f(set) for any set; the sets take turns.
template <class F>
double least_time(int sets, const F& f) {
  double least = 1e9;
  for (int set = 0; set < sets; ++set) {
    const Clock::time_point start = Clock::now();
    f(set);
    least = std::min(least, since(start));
  }
  return least;
}

void bench_few_rows(int threads) {
  constexpr int64_t kWidth = 768, kMost = 50304, kFloats = 3 * kMost * kWidth;
  Arena arena((kFloats + (int64_t{1} << 22)) * sizeof(float));
  float* weights = arena.floats(kFloats);
  float* x = arena.floats(16 * 3072);
  float* bias = arena.floats(kMost);
  float* y = arena.floats(16 * kMost);
  void* workspace = arena.floats(1 << 20);
  std::printf("\na few rows, %d thread(s): GB/s of weights\n%-26s%-16s%10s%10s%10s%10s\n", threads,
              "", "", "read", "chosen", "onednn", "share");
  const int64_t shapes[][2] = {{kMost, kWidth}, {3072, kWidth}, {kWidth, 3072}, {kWidth, kWidth}};
  for (const auto& sizes : shapes)
    for (const int64_t m : {1, 2, 4, 8, 16}) {
      const int64_t n = sizes[0], k = sizes[1];
      MatmulDesc desc = shape(m, n, k, false, true, threads);
      desc.bias = true;
      const auto ours = make(desc, "chosen"), theirs = make(desc, "onednn");
      const int sets = static_cast<int>(std::min<int64_t>(kFloats / (n * k), 16));
      double best[3] = {1e9, 1e9, 1e9};
      for (int round = 0; round < 10; ++round) {
        const auto run = [&](const MatmulKernel& kernel, int set) {
          kernel.run({x, weights + set * n * k, bias, y, workspace});
        };
        best[0] = std::min(best[0], least_time(sets, [&](int set) {
                             read_all(weights + set * n * k, n * k, threads, y);
                           }));
        best[1] = std::min(best[1], least_time(sets, [&](int set) { run(*ours, set); }));
        best[2] = std::min(best[2], least_time(sets, [&](int set) { run(*theirs, set); }));
      }
      const double gigabytes = static_cast<double>(n * k) * sizeof(float) * 1e-9;
      const std::string name = "(" + std::to_string(m) + "," + std::to_string(k) + ") x (" +
                               std::to_string(n) + "," + std::to_string(k) + ")'";
      std::printf("%-26s%-16s%10.1f%10.1f%10.1f%8.0f %%\n", name.c_str(), ours->name().data(),
                  gigabytes / best[0], gigabytes / best[1], gigabytes / best[2],
                  100 * best[0] / best[1]);
    }
}

// One line: rows (m, k) times weights (n, k) transposed, or rows (m, n) times these as they lie.
void bench_quantized(Arena& arena, int64_t m, int64_t n, int64_t k, bool transpose_b, int threads) {
  using plait::cpu::QuantizedDesc;
  using plait::kit::QuantFormat;
  const MatmulDesc desc =
      shape(m, transpose_b ? n : k, transpose_b ? k : n, false, transpose_b, threads);
  float* a = arena.floats(m * desc.k);
  float* w = arena.floats(n * k);
  float* c = arena.floats(m * desc.n);
  void* workspace = arena.floats(8 << 20);
  std::vector<std::function<void()>> runs;
  const auto f32 = plait::cpu::make_matmul(desc);
  runs.push_back([&] { f32->run({a, w, nullptr, c, workspace}); });
  MatmulDesc half = desc;
  half.half_a = half.half_b = half.half_c = plait::cpu::Half::bf16;
  const std::string dot = plait::cpu::choose_dot(half).kernel;
  const auto bf16 = dot.empty() ? nullptr : plait::cpu::make_matmul(half, dot);
  if (bf16) runs.push_back([&] { bf16->run({a, w, nullptr, c, workspace}); });
  // Any bytes are weights.
  const auto* numbers = reinterpret_cast<const uint8_t*>(w);
  std::vector<std::unique_ptr<plait::cpu::QuantizedMatmul>> kernels;
  std::vector<std::unique_ptr<plait::cpu::QuantizedDot>> dots;
  for (const QuantFormat format : {QuantFormat::kInt8, QuantFormat::kNf4}) {
    QuantizedDesc q;
    q.m = desc.m, q.n = desc.n, q.k = desc.k, q.threads = threads;
    q.format = format, q.transpose_b = transpose_b;
    kernels.push_back(std::make_unique<plait::cpu::QuantizedMatmul>(q));
    runs.push_back([=, kernel = kernels.back().get()] {
      kernel->run({a, numbers, w, nullptr, c, workspace});
    });
    if (!bf16) continue;
    dots.push_back(std::make_unique<plait::cpu::QuantizedDot>(q));
    runs.push_back([=, kernel = dots.back().get()] {
      kernel->run({reinterpret_cast<const uint16_t*>(a), numbers, w, nullptr,
                   reinterpret_cast<uint16_t*>(c), workspace});
    });
  }
  std::vector<double> best(runs.size(), 1e9);
  for (int round = 0; round < 20; ++round)
    for (size_t i = 0; i < runs.size(); ++i)
      best[i] = std::min(best[i], least_time(3, [&](int) { runs[i](); }));
  const double flops = 2e-9 * static_cast<double>(m) * static_cast<double>(n * k);
  const std::string name = "(" + std::to_string(m) + "," + std::to_string(desc.k) + ") x (" +
                           std::to_string(n) + "," + std::to_string(k) + ")" +
                           (transpose_b ? "'" : "");
  std::printf("%-26s", name.c_str());
  // In the order of the heading, and shares of the same type of a.
  const std::vector<size_t> columns =
      bf16 ? std::vector<size_t>{0, 2, 4, 1, 3, 5} : std::vector<size_t>{0, 1, 2};
  for (size_t i = 0; i < columns.size(); ++i) {
    std::printf("%9.1f", flops / best[columns[i]]);
    if (i % 3 > 0) std::printf("%5.0f %%", 100 * best[columns[i / 3 * 3]] / best[columns[i]]);
  }
  std::printf("\n");
}

void bench_quantized(int threads) {
  std::printf("\nquantized weights, %d thread(s): GFLOP/s, and shares of f32 and bf16\n%-26s",
              threads, "");
  for (const char* type : {"f32", "bf16"})
    std::printf("%9s%9s%7s%9s%7s", type, "int8", "", "nf4", "");
  std::printf("\n");
  const int64_t shapes[][2] = {{768, 768}, {3072, 768}, {768, 3072}};
  for (const int64_t m : {1, 8, 1024})
    for (const auto& sizes : shapes)
      for (const bool transpose_b : {true, false}) {
        Arena arena(size_t{128} << 20);
        bench_quantized(arena, m, sizes[0], sizes[1], transpose_b, threads);
      }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  const int part = argc > 2 ? std::atoi(argv[2]) : 0;
  if (part == 0 || part == 1) bench_step(threads);
  if (part == 0 || part == 2) {
    bench_wide(threads, 1024, false);
    bench_wide(threads, 128, true);
  }
  if (part == 0 || part == 3) bench_few_rows(threads);
  if (part == 0 || part == 4) bench_quantized(threads);
}

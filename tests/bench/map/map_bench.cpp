// The CPU device's map compared with two references: memory bandwidth (a triad in the same run) and
// a hand-written loop.
//   map_bench [threads]     prints medians of alternating rounds
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugins/devices/cpu/map/map.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using plait::cpu::MapDesc;
using plait::cpu::MapKernel;
using plait::cpu::MapTensor;
using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& f, int repeats) {
  const auto start = Clock::now();
  for (int i = 0; i < repeats; ++i) f();
  return std::chrono::duration<double>(Clock::now() - start).count() / repeats;
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

struct Contender {
  std::string name;
  std::function<void()> run;
  double bytes;  // moved per run
};

// Rounds alternate between the variants, so that other load affects all of them.
void race(std::vector<Contender> contenders, double unit, const char* unit_name) {
  std::vector<std::vector<double>> times(contenders.size());
  std::vector<int> repeats;
  for (const Contender& c : contenders) {
    c.run();
    repeats.push_back(std::max(1, static_cast<int>(0.02 / seconds_of(c.run, 1))));
  }
  for (int round = 0; round < 7; ++round)
    for (size_t c = 0; c < contenders.size(); ++c)
      times[c].push_back(seconds_of(contenders[c].run, repeats[c]));
  for (size_t c = 0; c < contenders.size(); ++c) {
    const double t = median(times[c]);
    const double best = *std::min_element(times[c].begin(), times[c].end());
    std::printf("  %-22s %10.3f %s (best %10.3f)", contenders[c].name.c_str(), t / unit, unit_name,
                best / unit);
    if (contenders[c].bytes > 0) std::printf("  %7.1f GB/s", contenders[c].bytes / t * 1e-9);
    std::printf("\n");
  }
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<float[], Free>;

Memory floats(int64_t n, float value, int threads) {
  Memory m(static_cast<float*>(std::aligned_alloc(4096, (n * 4 + 4095) / 4096 * 4096)));
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int64_t i = 0; i < n; ++i) m[i] = value + 1e-4f * static_cast<float>(i % 977);
  return m;
}

MapTensor tensor(std::initializer_list<int64_t> dims) {
  MapTensor t;
  for (const int64_t d : dims) t.dims[t.ndim++] = d;
  return t;
}

class Expression {
 public:
  explicit Expression(uint32_t n_inputs) : n_inputs_(n_inputs) {}
  uint32_t op(uint32_t op, uint32_t a, uint32_t b = 0, uint32_t c = 0, double value = 0) {
    instrs_.push_back({op, a, b, c, value});
    return n_inputs_ + static_cast<uint32_t>(instrs_.size()) - 1;
  }
  void output(uint32_t r) { outputs_.push_back(r); }
  plait_map map() const {
    return {sizeof(plait_map),
            n_inputs_,
            static_cast<uint32_t>(instrs_.size()),
            static_cast<uint32_t>(outputs_.size()),
            0,
            instrs_.data(),
            outputs_.data()};
  }

 private:
  uint32_t n_inputs_;
  std::vector<plait_map_instr> instrs_;
  std::vector<uint32_t> outputs_;
};

// A kernel with its workspace, bound to operands.
struct Bound {
  std::unique_ptr<MapKernel> kernel;
  Memory workspace;
  std::vector<void*> operands;

  Bound(const MapDesc& desc, const char* name, std::vector<void*> o)
      : kernel(make_map(desc, name)), operands(std::move(o)) {
    if (const size_t n = kernel->workspace_bytes())
      workspace.reset(static_cast<float*>(std::aligned_alloc(64, (n + 63) / 64 * 64)));
  }
  void operator()() const { kernel->run(operands.data(), workspace.get()); }
};

// p g m v, then rate, beta1, beta2, eps, 1 - rate*decay, 1/(1-beta1^t), 1/(1-beta2^t)
Expression adamw() {
  Expression e(11);
  const uint32_t one = e.op(PLAIT_MAP_CONST, 0, 0, 0, 1.0);
  const uint32_t m = e.op(PLAIT_MAP_FMA, 2, 5, e.op(PLAIT_MAP_MUL, 1, e.op(PLAIT_MAP_SUB, one, 5)));
  const uint32_t gg = e.op(PLAIT_MAP_MUL, 1, 1);
  const uint32_t v =
      e.op(PLAIT_MAP_FMA, 3, 6, e.op(PLAIT_MAP_MUL, gg, e.op(PLAIT_MAP_SUB, one, 6)));
  const uint32_t down = e.op(PLAIT_MAP_ADD, e.op(PLAIT_MAP_SQRT, e.op(PLAIT_MAP_MUL, v, 10)), 7);
  const uint32_t step = e.op(PLAIT_MAP_DIV, e.op(PLAIT_MAP_MUL, m, 9), down);
  const uint32_t p = e.op(PLAIT_MAP_SUB, e.op(PLAIT_MAP_MUL, 0, 8), e.op(PLAIT_MAP_MUL, step, 4));
  for (const uint32_t r : {p, m, v}) e.output(r);
  return e;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void adamw_by_hand(float* p, const float* g, float* m, float* v,
                                                      int64_t n, const float* s) {
  const __m512 rate = _mm512_set1_ps(s[0]), b1 = _mm512_set1_ps(s[1]), b2 = _mm512_set1_ps(s[2]),
               eps = _mm512_set1_ps(s[3]), keep = _mm512_set1_ps(s[4]), f1 = _mm512_set1_ps(s[5]),
               f2 = _mm512_set1_ps(s[6]), c1 = _mm512_set1_ps(1 - s[1]),
               c2 = _mm512_set1_ps(1 - s[2]);
  for (int64_t i = 0; i + 16 <= n; i += 16) {
    const __m512 vg = _mm512_loadu_ps(g + i);
    const __m512 vm = _mm512_fmadd_ps(_mm512_loadu_ps(m + i), b1, _mm512_mul_ps(vg, c1));
    const __m512 vv =
        _mm512_fmadd_ps(_mm512_loadu_ps(v + i), b2, _mm512_mul_ps(_mm512_mul_ps(vg, vg), c2));
    const __m512 down = _mm512_add_ps(_mm512_maskz_sqrt_ps(0xffff, _mm512_mul_ps(vv, f2)), eps);
    const __m512 step = _mm512_div_ps(_mm512_mul_ps(vm, f1), down);
    _mm512_storeu_ps(m + i, vm);
    _mm512_storeu_ps(v + i, vv);
    _mm512_storeu_ps(p + i,
                     _mm512_fnmadd_ps(step, rate, _mm512_mul_ps(_mm512_loadu_ps(p + i), keep)));
  }
}
#endif

void bench_adamw(int64_t n, int threads) {
  std::printf("AdamW in place, %lld elements, %d threads (28 bytes each)\n",
              static_cast<long long>(n), threads);
  Memory p = floats(n, 0.1f, threads), g = floats(n, 0.01f, threads), m = floats(n, 0, threads),
         v = floats(n, 0, threads);
  float scalars[] = {1e-3f, 0.9f, 0.999f, 1e-8f, 1 - 1e-5f, 10.0f, 1000.0f};
  std::vector<void*> operands = {p.get(), g.get(), m.get(), v.get()};
  for (float& s : scalars) operands.push_back(&s);
  for (void* o : {p.get(), m.get(), v.get()}) operands.push_back(o);
  const Expression e = adamw();
  const plait_map map = e.map();
  std::vector<MapTensor> in(4, tensor({n})), out(3, tensor({n}));
  in.resize(11, tensor({}));
  const MapDesc desc{&map, in, out, threads};
  std::vector<Contender> contenders;
  const double bytes = 28.0 * static_cast<double>(n);
  for (const char* name : {"jit_avx512", "jit_avx2", "interpreter"}) {
    try {
      auto bound = std::make_shared<Bound>(desc, name, operands);
      contenders.push_back({name, [bound] { (*bound)(); }, bytes});
    } catch (const std::exception& x) {
      std::printf("  %s\n", x.what());
    }
  }
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    contenders.push_back(
        {"by hand, AVX-512",
         [&] {
#pragma omp parallel num_threads(threads) if (threads > 1)
           {
             const int64_t t = omp_get_thread_num(), k = omp_get_num_threads();
             const int64_t b = n / 64 * t / k * 64, c = t + 1 == k ? n : n / 64 * (t + 1) / k * 64;
             adamw_by_hand(p.get() + b, g.get() + b, m.get() + b, v.get() + b, c - b, scalars);
           }
         },
         bytes});
#endif
  const auto triad = [&] {
    float *a = p.get(), *b = g.get(), *c = m.get();
#pragma omp parallel for simd num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
  };
  contenders.push_back({"triad (12 bytes)", triad, 12.0 * static_cast<double>(n)});
  const auto update = [&] {
    float *a = p.get(), *b = g.get(), *c = m.get(), *d = v.get();
#pragma omp parallel for simd num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < n; ++i) {
      const float x = b[i];
      a[i] = a[i] * 0.5f + x;
      c[i] = c[i] * 0.5f + x;
      d[i] = d[i] * 0.5f + x;
    }
  };
  contenders.push_back({"3 in-place sums", update, bytes});
  race(contenders, 1e-3, "ms");
}

// inputs x (M,N) and g; `second`: shape of the other input.
void bench_small(const char* title, const Expression& e, MapTensor x, MapTensor second, MapTensor y,
                 int64_t n) {
  std::printf("%s\n", title);
  Memory a = floats(n, -0.05f, 1), b = floats(n, 0.5f, 1), c = floats(n, 0, 1);
  const plait_map map = e.map();
  const MapTensor in[] = {x, second};
  const MapDesc desc{&map, in, {&y, 1}, 1};
  std::vector<Contender> contenders;
  for (const char* name : {"jit_avx512", "jit_avx2", "interpreter"}) {
    try {
      auto bound =
          std::make_shared<Bound>(desc, name, std::vector<void*>{a.get(), b.get(), c.get()});
      contenders.push_back({name, [bound] { (*bound)(); }, 12.0 * static_cast<double>(n)});
    } catch (const std::exception& error) {
      std::printf("  %s\n", error.what());
    }
  }
  race(contenders, 1e-9, "ns");
}

void bench_small_maps() {
  Expression relu_back(2);
  const uint32_t zero = relu_back.op(PLAIT_MAP_CONST, 0, 0, 0, 0.0);
  relu_back.output(relu_back.op(PLAIT_MAP_SELECT, relu_back.op(PLAIT_MAP_LT, zero, 0), 1, zero));
  bench_small("ReLU backward, [32,120]", relu_back, tensor({32, 120}), tensor({32, 120}),
              tensor({32, 120}), 3840);
  Expression bias(2);
  bias.output(bias.op(PLAIT_MAP_RELU, bias.op(PLAIT_MAP_ADD, 0, 1)));
  bench_small("bias [120] and ReLU, [32,120]", bias, tensor({32, 120}), tensor({120}),
              tensor({32, 120}), 3840);
  bench_small("bias [10] and ReLU, [32,10]", bias, tensor({32, 10}), tensor({10}), tensor({32, 10}),
              320);
  bench_small("bias [3] and ReLU, [100000,3]", bias, tensor({100000, 3}), tensor({3}),
              tensor({100000, 3}), 300000);
}

void bench_functions() {
  const struct {
    const char* name;
    uint32_t op;
  } functions[] = {{"exp", PLAIT_MAP_EXP},         {"log", PLAIT_MAP_LOG},
                   {"tanh", PLAIT_MAP_TANH},       {"erf", PLAIT_MAP_ERF},
                   {"sigmoid", PLAIT_MAP_SIGMOID}, {"expm1", PLAIT_MAP_EXPM1},
                   {"log1p", PLAIT_MAP_LOG1P},     {"pow", PLAIT_MAP_POW}};
  for (const auto& f : functions) {
    Expression e(2);
    e.output(e.op(PLAIT_MAP_MUL, e.op(f.op, 1, 1), 0));
    const std::string title = std::string(f.name) + "(a) * b, [16,1024] in cache";
    bench_small(title.c_str(), e, tensor({16, 1024}), tensor({16, 1024}), tensor({16, 1024}),
                16384);
  }
}

void bench_make() {
  std::printf("preparing AdamW\n");
  const Expression e = adamw();
  const plait_map map = e.map();
  std::vector<MapTensor> in(4, tensor({1000})), out(3, tensor({1000}));
  in.resize(11, tensor({}));
  const MapDesc desc{&map, in, out, 1};
  Expression gelu(1);
  const auto c = [&](double x) { return gelu.op(PLAIT_MAP_CONST, 0, 0, 0, x); };
  const uint32_t erf = gelu.op(PLAIT_MAP_ERF, gelu.op(PLAIT_MAP_MUL, 0, c(0.70710678)));
  const uint32_t sum = gelu.op(PLAIT_MAP_ADD, erf, c(1.0));
  gelu.output(gelu.op(PLAIT_MAP_MUL, gelu.op(PLAIT_MAP_MUL, 0, c(0.5)), sum));
  const plait_map gelu_map = gelu.map();
  const MapTensor t = tensor({1000});
  const MapDesc gelu_desc{&gelu_map, {&t, 1}, {&t, 1}, 1};
  race({{"make_map, AdamW", [&] { make_map(desc); }, 0},
        {"make_map, GELU", [&] { make_map(gelu_desc); }, 0},
        {"make_map, interpreter", [&] { make_map(desc, "interpreter"); }, 0},
        {"choose_map", [&] { choose_map(desc); }, 0}},
       1e-6, "us");
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  bench_make();
  bench_small_maps();
  bench_functions();
  for (const int64_t n : {106000, 10000000, 100000000}) bench_adamw(n, threads);
  return 0;
}

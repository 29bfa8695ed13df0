// oneDNN's rate for a list of matrix products, run one after the other like a training step, each
// with its own memory.
//   bench_gemm [--seconds S] M,N,K,TA,TB ...     one round for every line on stdin
// OMP_NUM_THREADS sets the number of threads. C (M,N) = op(A) op(B), f32, row-major; TA, TB 1:
// stored transposed. Each product is timed in three ways and the fastest counts: the matmul
// primitive on plain layouts, the same with B in oneDNN's preferred layout (without the time to
// reorder), dnnl_sgemm.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <string>
#include <vector>

namespace {

using dnnl::memory;
constexpr int kWays = 3;
constexpr const char* kNames[kWays] = {"plain", "packed", "sgemm"};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Shape {
  memory::dim m, n, k;
  int ta, tb;
};

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const memory::desc& a,
                                      const memory::desc& b, const memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {{a, b, c}, engine};
#endif
}

class Product {
 public:
  Product(const Shape& s, const dnnl::engine& engine, dnnl::stream& stream) : s_(s) {
    const auto f32 = memory::data_type::f32;
    const memory::desc a({s.m, s.k}, f32, s.ta ? memory::dims{1, s.m} : memory::dims{s.k, 1});
    const memory::desc b({s.k, s.n}, f32, s.tb ? memory::dims{1, s.k} : memory::dims{s.n, 1});
    const memory::desc c({s.m, s.n}, f32, memory::dims{s.n, 1});
    const memory::desc any({s.k, s.n}, f32, memory::format_tag::any);
    const auto packed = describe(engine, a, any, c);
    a_ = memory(a, engine);
    b_ = memory(b, engine);
    c_ = memory(c, engine);
    fill(a_, s.m * s.k);
    fill(b_, s.k * s.n);
    packed_b_ = memory(packed.weights_desc(), engine);
    dnnl::reorder(b_, packed_b_).execute(stream, b_, packed_b_);
    stream.wait();
    plain_ = dnnl::matmul(describe(engine, a, b, c));
    packed_ = dnnl::matmul(packed);
  }

  void run(int way, dnnl::stream& stream) {
    if (way == 2) {
      dnnl_sgemm(s_.ta ? 'T' : 'N', s_.tb ? 'T' : 'N', s_.m, s_.n, s_.k, 1.0f, data(a_),
                 s_.ta ? s_.m : s_.k, data(b_), s_.tb ? s_.k : s_.n, 0.0f, data(c_), s_.n);
      return;
    }
    (way == 0 ? plain_ : packed_)
        .execute(stream, {{DNNL_ARG_SRC, a_},
                          {DNNL_ARG_WEIGHTS, way == 0 ? b_ : packed_b_},
                          {DNNL_ARG_DST, c_}});
    stream.wait();
  }
  double flops() const {
    return 2.0 * static_cast<double>(s_.m) * static_cast<double>(s_.n) * static_cast<double>(s_.k);
  }

 private:
  static float* data(const memory& m) { return static_cast<float*>(m.get_data_handle()); }
  static void fill(const memory& m, memory::dim n) {
    std::minstd_rand random(1);
    for (memory::dim i = 0; i < n; ++i) data(m)[i] = static_cast<float>(random() % 1000) * 1e-3f;
  }
  Shape s_;
  memory a_, b_, packed_b_, c_;
  dnnl::matmul plain_, packed_;
};

// One round: complete passes over all products, each way in turn; mean seconds of each product in
// each way.
void round(std::vector<Product>& products, dnnl::stream& stream, double seconds) {
  std::vector<std::vector<double>> times(products.size(), std::vector<double>(kWays));
  int passes = 0;
  for (const double end = now() + seconds; passes == 0 || now() < end; ++passes)
    for (int way = 0; way < kWays; ++way)
      for (size_t i = 0; i < products.size(); ++i) {
        const double start = now();
        products[i].run(way, stream);
        times[i][static_cast<size_t>(way)] += now() - start;
      }
  double total = 0, flops = 0, way_total[kWays] = {};
  for (size_t i = 0; i < products.size(); ++i) {
    total += *std::min_element(times[i].begin(), times[i].end());
    flops += products[i].flops();
    for (int way = 0; way < kWays; ++way) way_total[way] += times[i][static_cast<size_t>(way)];
  }
  const double scale = flops * passes * 1e-9;
  std::printf("{\"gflops\": %.2f, \"seconds\": %.6f, \"threads\": %d", scale / total,
              total / passes, omp_get_max_threads());
  for (int way = 0; way < kWays; ++way)
    std::printf(", \"%s_gflops\": %.2f", kNames[way], scale / way_total[way]);
  std::printf(", \"best_each\": [");
  for (size_t i = 0; i < products.size(); ++i)
    std::printf(
        "%s%.1f", i ? ", " : "",
        products[i].flops() * passes * 1e-9 / *std::min_element(times[i].begin(), times[i].end()));
  std::printf("]}\n");
}

}  // namespace

int main(int count, char** values) {
  double seconds = 2;
  std::vector<Shape> shapes;
  for (int i = 1; i < count; ++i) {
    Shape s{};
    if (std::strcmp(values[i], "--seconds") == 0 && i + 1 < count) {
      seconds = std::atof(values[++i]);
    } else if (std::sscanf(values[i], "%ld,%ld,%ld,%d,%d", &s.m, &s.n, &s.k, &s.ta, &s.tb) == 5) {
      shapes.push_back(s);
    } else {
      std::fprintf(stderr, "[bench] '%s' is no product; expected M,N,K,TA,TB\n", values[i]);
      return 2;
    }
  }
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  std::vector<Product> products;
  for (const Shape& s : shapes) products.emplace_back(s, engine, stream);
  for (int way = 0; way < kWays; ++way)
    for (Product& p : products) p.run(way, stream);
  std::printf("{\"ready\": true}\n");
  std::fflush(stdout);
  for (int c; (c = std::getchar()) != EOF;) {
    if (c != '\n') continue;
    round(products, stream, seconds);
    std::fflush(stdout);
  }
}

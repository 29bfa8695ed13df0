#include "plugins/devices/cuda/matmul/tune.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "kit/dtype.hpp"
#include "plugins/devices/cuda/map/cache.hpp"

namespace plait::cuda {
namespace {

constexpr int kCandidates = 8;

// Everything that decides which algorithm is the fastest.
std::string key_of(const Device& device, const ProductDesc& d) {
  std::string key = "algorithm of a product\n" + device.identity();
  for (const int64_t v : {d.batch, d.m, d.n, d.k, d.stride_a, d.stride_b})
    key += " " + std::to_string(v);
  for (const bool v : {d.transpose_a, d.transpose_b, d.bias, d.accumulate, d.tf32})
    key += v ? " 1" : " 0";
  for (const uint64_t v :
       {uint64_t{d.type}, uint64_t{d.y_type}, static_cast<uint64_t>(d.epilogue), d.workspace})
    key += " " + std::to_string(v);
  return key;
}

// Operands of a product in memory of their own.
class Operands {
 public:
  Operands(Device& device, const ProductDesc& d, CUstream stream) : device_(device) {
    const auto of = [](int64_t count, uint32_t type) {
      const uint64_t bytes = static_cast<uint64_t>(count) * kit::dtype_bytes(type);
      return (bytes + kProductAlignment - 1) / kProductAlignment * kProductAlignment;
    };
    const uint64_t a = of((d.batch - 1) * d.stride_a + d.m * d.k, d.type),
                   b = of((d.batch - 1) * d.stride_b + d.k * d.n, d.type),
                   bias = of(d.bias ? d.n : 0, d.y_type), y = of(d.batch * d.m * d.n, d.y_type);
    memory_ = static_cast<char*>(device.alloc(a + b + bias + y + d.workspace));
    try {
      fill(memory_, a + b, kit::dtype_bytes(d.type), stream);
      fill(memory_ + a + b, bias, kit::dtype_bytes(d.y_type), stream);
    } catch (...) {
      device.free(memory_);
      throw;
    }
    char* const at = memory_ + a + b + bias;
    all_ = {memory_, memory_ + a, memory_ + a + b, at, at, at + y};
  }
  ~Operands() { device_.free(memory_); }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  const ProductOperands& all() const { return all_; }

 private:
  // Random bits but for the highest byte of each element, which makes it neither large nor 0 in any
  // type: products of equal numbers need less power than products of a model, and are faster.
  void fill(char* to, uint64_t bytes, uint64_t element, CUstream stream) {
    constexpr uint64_t kPiece = uint64_t{1} << 20;
    std::vector<unsigned char> piece(std::min(bytes, kPiece));
    std::mt19937 random(1);
    for (uint64_t i = 0; i < piece.size(); ++i)
      piece[i] = i % element == element - 1 ? 0x3c : static_cast<unsigned char>(random());
    for (uint64_t at = 0; at < bytes; at += piece.size())
      check(driver().cuMemcpyHtoDAsync(pointer(to + at), piece.data(),
                                       std::min<uint64_t>(piece.size(), bytes - at), stream),
            "copying to the GPU");
    check(driver().cuStreamSynchronize(stream), "copying to the GPU");
  }

  Device& device_;
  char* memory_ = nullptr;
  ProductOperands all_{};
};

// A stream for the time of a measurement.
class Stream {
 public:
  Stream() {
    check(driver().cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
          "creating a stream");
  }
  ~Stream() { driver().cuStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream get() const { return stream_; }

 private:
  CUstream stream_ = nullptr;
};

// Seconds of `runs` runs in a row.
double seconds_of(const Product& product, const ProductOperands& operands, CUstream stream,
                  int runs) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) product.run(stream, operands);
  check(driver().cuStreamSynchronize(stream), "measuring a product");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The least time of each candidate over a few rounds.
std::vector<double> measure(Device& device, const ProductDesc& d,
                            const std::vector<Product>& candidates) {
  const Stream stream;
  const Operands operands(device, d, stream.get());
  const auto time = [&](const Product& p, int runs) {
    return seconds_of(p, operands.all(), stream.get(), runs);
  };
  for (const Product& p : candidates) time(p, 1);  // loads its code
  constexpr double kRound = 2e-3;  // seconds for a candidate, beside which a wait is short
  constexpr int kRounds = 3, kLeastRuns = 3, kMostRuns = 100;
  const double once = time(candidates[0], 1);
  const int runs =
      std::clamp(static_cast<int>(kRound / std::max(once, 1e-6)), kLeastRuns, kMostRuns);
  std::vector<double> least(candidates.size(), 1e9);
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < candidates.size(); ++i)
      least[i] = std::min(least[i], time(candidates[i], runs) / runs);
  return least;
}

// Only a clear gain is worth bits that an untuned session would not have.
size_t choose(const std::vector<double>& seconds) {
  constexpr double kClear = 0.97;
  const auto best = std::min_element(seconds.begin(), seconds.end());
  return *best < kClear * seconds[0] ? static_cast<size_t>(best - seconds.begin()) : 0;
}

cublasLtMatmulAlgo_t measured(Device& device, CublasLtHandle& handle, const ProductDesc& d) {
  const Product first(handle, d);
  const auto algorithms = first.algorithms(kCandidates);
  std::vector<Product> candidates(algorithms.size(), first);
  for (size_t i = 0; i < algorithms.size(); ++i) candidates[i].use(algorithms[i]);
  const std::vector<double> seconds = measure(device, d, candidates);
  const size_t chosen = choose(seconds);
  char times[96];
  std::snprintf(times, sizeof times, "algorithm %zu of %zu, %.2f us; the first takes %.2f us",
                chosen + 1, seconds.size(), seconds[chosen] * 1e6, seconds[0] * 1e6);
  device.host().log(PLAIT_LOG_DEBUG, "[cuda] " + text(d) + ": " + times);
  return algorithms[chosen];
}

}  // namespace

cublasLtMatmulAlgo_t fastest_algorithm(Device& device, CublasLtHandle& handle,
                                       const ProductDesc& desc) {
  const CurrentContext current(device.context());
  const map::Cache cache(device.cache());
  const std::string key = key_of(device, desc);
  cublasLtMatmulAlgo_t algorithm{};
  if (const auto kept = cache.find(key); kept && kept->size() == sizeof algorithm) {
    std::memcpy(&algorithm, kept->data(), sizeof algorithm);
    return algorithm;
  }
  try {
    algorithm = measured(device, handle, desc);
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_MEMORY) throw;
    device.host().log(PLAIT_LOG_WARN, "[cuda] " + text(desc) +
                                          " is not tuned, for want of memory; use a smaller batch, "
                                          "or tune = false: " +
                                          e.what());
    return Product(handle, desc).algorithm();
  }
  cache.keep(key, std::string(reinterpret_cast<const char*>(&algorithm), sizeof algorithm));
  return algorithm;
}

}  // namespace plait::cuda

// Products of matrices on the CUDA device, by the emulated cuBLASLt: every combination of types,
// what has no epilogue, and what has no algorithm.
#include <cublas_api.h>
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "kit/dtype.hpp"
#include "kit/ops/quantized.hpp"
#include "tests/conformance/runner.hpp"

namespace {

using namespace conformance;

const Plugin& cuda() {
  static const Plugin plugin(CUDA_PLUGIN);
  return plugin;
}
const Plugin& plain() {
  static const Plugin plugin(REFERENCE_PLUGIN);
  return plugin;
}
const plait_kernel_item& fast() {
  const auto* item = cuda().kernels("matmul").at(0);
  REQUIRE(std::string(item->name) == "cublaslt");
  return *item;
}

constexpr uint32_t kFloats[] = {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_F16};

// The tolerance of an f32 result, whatever its type, in units of the coarsest type on the way.
Case product(uint32_t type, uint32_t y, int64_t m, int64_t n, int64_t k) {
  Case c{std::string(plait::kit::dtype_name(type)) + " into " + plait::kit::dtype_name(y),
         "matmul",
         {{shape(type, {m, k}), -1, 1}, {shape(type, {k, n}), -1, 1}},
         {shape(y, {m, n})}};
  c.scale = 1 + std::sqrt(static_cast<double>(k));
  constexpr double kPerType = 1e7;  // runner.cpp expects of f64 what f32 cannot give
  if (y == PLAIT_F64 && type != PLAIT_F64) c.tolerance *= kPerType;
  return c;
}

void agree(const Case& c) {
  static const Device device(cuda()), reference(plain());
  CAPTURE(c.name);
  const Desc desc(c, 1);
  CAPTURE(select(fast(), desc).detail);
  REQUIRE(select(fast(), desc).taken);
  const auto wanted = expected(reference, c);
  for (const RunMode mode : {RunMode::direct, RunMode::captured})
    CHECK(difference(c, run(device, fast(), c, 1, mode), wanted) == "");
}

TEST_CASE("every combination of types") {
  for (const uint32_t type : kFloats)
    for (const uint32_t y : kFloats)
      for (const int64_t n : {13, 20})
        for (const int64_t k : {0, 6}) {
          agree(product(type, y, 9, n, k));
          for (const uint32_t bias : kFloats)
            for (const char* activation : {"none", "relu", "gelu", "gelu_tanh"}) {
              Case c = product(type, y, 9, n, k);
              c.name += std::string(" + bias ") + plait::kit::dtype_name(bias) + " " + activation;
              c.inputs.push_back({shape(bias, {n}), -1, 1});
              c.attrs = {flag("bias", true), text("activation", activation)};
              // The bias is rounded to the type of y, or to f32.
              if (y == PLAIT_F64) c.tolerance = 1e7 * 4e-6;
              agree(c);
            }
          Case sum = product(type, y, 9, n, k);
          sum.name += " accumulated";
          sum.attrs = {flag("accumulate", true)};
          sum.inputs.push_back({sum.outputs[0], -1, 1});
          agree(sum);  // into other memory
          sum.in_place = {2};
          sum.must_alias = true;
          agree(sum);
        }
}

TEST_CASE("the sum of squares, also of more elements than one part has") {
  for (const uint32_t y : kFloats)
    for (const uint32_t total : {uint32_t{PLAIT_F32}, uint32_t{PLAIT_F64}})
      for (const int64_t m : {0, 3, 301}) {
        Case c = product(PLAIT_F32, y, m, 51, 2);
        c.name += " with squares, m = " + std::to_string(m);
        c.attrs = {flag("squares", true)};
        c.outputs.push_back(shape(total, {}));
        c.tolerance = y == PLAIT_F64 || total == PLAIT_F64 ? 1e7 * 4e-6 : 4e-6;
        c.scale = 1 + static_cast<double>(m * 51);
        if (plait::kit::dtype_bytes(y) == 2) c.tolerance *= 300;  // of y as it was rounded
        agree(c);
      }
}

TEST_CASE("not a number stays behind relu") {
  Case c = product(PLAIT_F32, PLAIT_F32, 4, 8, 8);
  c.inputs[0].set = {{3, std::nan("")}};
  c.attrs = {text("activation", "relu")};
  agree(c);
}

TEST_CASE("the workspace is a function of the shapes") {
  const auto workspace = [](int64_t m, int64_t n, uint32_t type = PLAIT_F32) {
    return select(fast(), Desc(product(type, type, m, n, 64), 1)).workspace;
  };
  constexpr uint64_t kSlack = 256 - 64;  // to align what the engine aligns to 64
  CHECK(workspace(1, 1) == (64 << 10) + kSlack);
  CHECK(workspace(100, 100) == 64 * 4 * 100 * 100 + kSlack);
  CHECK(workspace(4096, 4096) == (32 << 20) + kSlack);
  CHECK(workspace(0, 5) == 0);
}

TEST_CASE("the kernel for few rows takes as many as a grid has blocks") {
  const auto takers = [](int64_t m) {
    Case c{"", "matmul_quantized", {}, {shape(PLAIT_F32, {m, 8})}};
    c.inputs = {{shape(PLAIT_BF16, {m, 64})},
                {shape(PLAIT_U8, {8, 64})},
                {f32({8, plait::kit::QuantRow{.columns = 64}.blocks()})}};
    const Desc desc(c, 1);
    std::string names;
    for (const auto* item : cuda().kernels("matmul_quantized"))
      if (select(*item, desc).taken) names += std::string(item->name) + " ";
    return names;
  };
  constexpr int64_t kMost = 8 * 65535;
  CHECK(takers(kMost) == "few_rows plain ");
  CHECK(takers(kMost + 1) == "plain ");
}

// A prepared product of a row of kInner numbers, of which every order has another sum, and ones.
class Dot {
 public:
  static constexpr int64_t kInner = 1000;
  explicit Dot(const Device& device) : device_(device) {
    const Desc desc(c_, 1);
    workspace_.emplace(device, select(fast(), desc).workspace);
    check(fast().prepare(device.plugin().host(), device.get(), &desc.get(), &kernel_));
    Bytes ones(4 * kInner), fractions(4 * kInner);
    for (int64_t i = 0; i < kInner; ++i) {
      const float one = 1, fraction = number(i);
      std::memcpy(ones.data() + 4 * i, &one, sizeof one);
      std::memcpy(fractions.data() + 4 * i, &fraction, sizeof fraction);
    }
    a_.put(fractions);
    b_.put(ones);
  }
  ~Dot() { fast().release(kernel_); }
  Dot(const Dot&) = delete;
  Dot& operator=(const Dot&) = delete;
  plait_algorithm tune() {
    plait_algorithm found{};
    check(fast().tune(device_.get(), kernel_, &found));
    return found;
  }
  void adopt(const plait_algorithm& algorithm) { check(fast().adopt(kernel_, &algorithm)); }
  float run() {
    void* const operands[] = {a_.data(), b_.data(), y_.data()};
    const plait_device_item& d = device_.item();
    check(d.enqueue(device_.queue(), &fast(), kernel_, operands, 3, workspace_->data()));
    check(d.sync(device_.queue()));
    float y = 0;
    std::memcpy(&y, y_.get().data(), sizeof y);
    return y;
  }
  // The sum in the order of an algorithm of the emulated library.
  static float sum(int algorithm) {
    float sum = 0;
    for (int64_t i = 0; i < kInner; ++i) {
      const int64_t x = algorithm == 0   ? i
                        : algorithm == 1 ? kInner - 1 - i
                                         : (2 * i) % kInner + (2 * i) / kInner;
      sum += number(x);
    }
    return sum;
  }

 private:
  static float number(int64_t i) { return 1 / (static_cast<float>(i) + 1.5f); }
  const Device& device_;
  Case c_ = product(PLAIT_F32, PLAIT_F32, 1, 1, kInner);
  Buffer a_{device_, 4 * kInner}, b_{device_, 4 * kInner}, y_{device_, 4};
  std::optional<Buffer> workspace_;
  plait_kernel* kernel_ = nullptr;
};

TEST_CASE("tuning finds the fastest algorithm, and finds it again in the cache") {
  std::string folder = (std::filesystem::temp_directory_path() / "cuda-tune-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const auto cached = [&](const std::string& to) {
    return OptionValues{{"cache", '"' + to + '"'}};
  };
  const auto slow = [](const char* algorithms) {
    setenv("PLAIT_CUDA_EMULATOR_LT_SLOW", algorithms, 1);
  };
  plait_algorithm last{};
  {
    const Device device(cuda(), cached(folder));
    Dot dot(device);
    CHECK(dot.run() == dot.sum(0));
    slow("01");
    last = dot.tune();
    CHECK(dot.run() == dot.sum(0));  // until it is adopted
    dot.adopt(last);
    CHECK(dot.run() == dot.sum(2));
    CHECK((dot.sum(2) != dot.sum(0) && dot.sum(1) != dot.sum(0) && dot.sum(1) != dot.sum(2)));
  }
  slow("02");
  {
    const Device device(cuda(), cached(folder));
    Dot dot(device);
    const plait_algorithm again = dot.tune();
    CHECK(std::memcmp(&again, &last, sizeof last) == 0);
  }
  const Device device(cuda(), cached(""));
  Dot dot(device);
  dot.adopt(dot.tune());
  CHECK(dot.run() == dot.sum(1));
  slow("12");
  CHECK((dot.adopt(dot.tune()), dot.run()) == dot.sum(0));
  unsetenv("PLAIT_CUDA_EMULATOR_LT_SLOW");
  std::filesystem::remove_all(folder);
}

// Prepares the product, measures its algorithms and adopts one.
void tune(const Device& device, const Case& c) {
  CAPTURE(c.name);
  const Desc desc(c, 1);
  plait_kernel* kernel = nullptr;
  check(fast().prepare(cuda().host(), device.get(), &desc.get(), &kernel));
  plait_algorithm found{};
  CHECK(take(fast().tune(device.get(), kernel, &found)) == "");
  CHECK(take(fast().adopt(kernel, &found)) == "");
  fast().release(kernel);
}

TEST_CASE("every sort of product can be tuned") {
  const Device device(cuda(), {{"cache", "\"\""}});
  for (const uint32_t type : kFloats)
    for (const char* activation : {"none", "relu", "gelu"})
      for (const int64_t k : {0, 6}) {
        Case c = product(type, type, 9, 20, k);
        c.inputs.push_back({shape(type, {20}), -1, 1});
        c.attrs = {flag("bias", true), text("activation", activation), flag("transpose_b", false)};
        tune(device, c);
      }
}

// Behind the operands there is the least workspace: a copy beyond their end leaves the allocation.
TEST_CASE("a product is tuned on operands of a few pieces, of which the last is shorter") {
  const Device device(cuda(), {{"cache", "\"\""}});
  for (const int64_t k : {(1 << 18) - 64, 1 << 18, (1 << 18) + 64})
    tune(device, product(PLAIT_F32, PLAIT_F32, 1, 1, k));
}

// A product of (32, 64) and (48, 64) by rows in 8 bits, with a scale for each row or one for each.
Case of_8_bits(bool rows_a, bool rows_b, uint32_t y, bool bias = false) {
  const auto scales = [](bool rows, int64_t n) {
    Input in{f32(rows ? std::vector<int64_t>{n} : std::vector<int64_t>{}), 1, 1};
    for (int64_t i = 0; i < (rows ? n : 1); ++i) in.set.emplace_back(i, std::exp2(i % 5 - 2));
    return in;
  };
  Case c{std::string("8 bits into ") + plait::kit::dtype_name(y) + (rows_a ? ", rows of a" : "") +
             (rows_b ? ", rows of b" : "") + (bias ? " + bias" : ""),
         "matmul_f8",
         {{shape(PLAIT_F8E4M3, {32, 64}), -9, 9},
          {shape(PLAIT_F8E5M2, {48, 64}), -9, 9},
          scales(rows_a, 32),
          scales(rows_b, 48)},
         {shape(y, {32, 48})},
         {flag("bias", bias), text("activation", "none")}};
  if (bias) c.inputs.push_back({f32({48}), -1, 1});
  c.scale = 1 + 400 * 8;
  return c;
}

// How many products with scales of rows the emulated library runs for a case, which must be right.
uint64_t runs_with_scales_of_rows(const Case& c) {
  static const Device device(cuda()), reference(plain());
  CAPTURE(c.name);
  const plait_kernel_item& item = *cuda().kernels("matmul_f8").at(0);
  REQUIRE(std::string(item.name) == "cublaslt");
  REQUIRE(select(item, Desc(c, 1)).taken);
  const auto result = [&] { return run(device, item, c, 1, RunMode::direct); };
  result();  // the library is open from here on
  using Count = uint64_t (*)();
  void* const library = dlopen(CUBLASLT_NAME, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library);
  const auto count = reinterpret_cast<Count>(dlsym(library, "cublaslt_emulator_scales_of_rows"));
  REQUIRE((count != nullptr));
  const uint64_t before = count();
  CHECK(difference(c, result(), expected(reference, c)) == "");
  const uint64_t runs = count() - before;
  dlclose(library);
  return runs;
}

TEST_CASE("scales of rows are cuBLASLt's where it writes y itself and has them") {
  constexpr bool kHas = CUBLAS_VERSION >= 120900;  // the plugin was compiled with this header
  for (const uint32_t y : {PLAIT_F32, PLAIT_BF16, PLAIT_F16}) {
    CHECK((runs_with_scales_of_rows(of_8_bits(true, true, y)) > 0) == kHas);
    CHECK(runs_with_scales_of_rows(of_8_bits(true, false, y)) == 0);
    CHECK(runs_with_scales_of_rows(of_8_bits(false, false, y)) == 0);
    CHECK(runs_with_scales_of_rows(of_8_bits(true, true, y, true)) == 0);
  }
  CHECK(runs_with_scales_of_rows(of_8_bits(true, true, PLAIT_F64)) == 0);
  setenv("PLAIT_CUDA_EMULATOR_LT", "one_scale", 1);
  CHECK(runs_with_scales_of_rows(of_8_bits(true, true, PLAIT_F32)) == 0);
  unsetenv("PLAIT_CUDA_EMULATOR_LT");
}

TEST_CASE("without an algorithm the plain kernel computes") {
  setenv("PLAIT_CUDA_EMULATOR_LT", "none", 1);
  Case c = product(PLAIT_BF16, PLAIT_F32, 7, 5, 6);
  agree(c);
  c.attrs = {flag("squares", true)};
  c.outputs.push_back(shape(PLAIT_F32, {}));
  c.scale *= 36;
  agree(c);
  unsetenv("PLAIT_CUDA_EMULATOR_LT");
}

}  // namespace

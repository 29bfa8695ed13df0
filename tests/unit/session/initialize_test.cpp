// Initial values: the fast kernels against one number at a time, in every bit.
#include "engine/session/initialize.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/session/normal.hpp"

namespace plait::session {
namespace {

plan::Parameter parameter(uint32_t init, double a, double b) {
  plan::Parameter p;
  p.name = "model.linear1.weight";
  p.init = init;
  p.init_a = a;
  p.init_b = b;
  return p;
}

void fill(const plan::Parameter& p, uint64_t seed, int64_t first, std::vector<float>& out,
          uint32_t threads = 1) {
  session::initialize(p, seed, first, static_cast<int64_t>(out.size()), PLAIT_F32, out.data(),
                      threads);
}

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// As the header defines them, one at a time.
std::vector<float> normals(const plan::Parameter& p, uint64_t seed, uint64_t first, size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] =
        static_cast<float>(p.init_a + p.init_b * normal(first + i, name_hash(p.name), seed));
  return values;
}

TEST_CASE("a normal number has mean 0 and deviation 1, and no value beyond the tail of 24 bits") {
  double sum = 0, squares = 0, largest = 0;
  constexpr int kNumbers = 1 << 18;
  for (uint64_t e = 0; e < kNumbers; ++e) {
    const double z = normal(e, 7, 42);
    sum += z;
    squares += z * z;
    largest = std::max(largest, std::abs(z));
  }
  CHECK(std::abs(sum / kNumbers) < 0.01);
  CHECK(std::abs(squares / kNumbers - 1) < 0.01);
  CHECK(largest < std::sqrt(48 * std::numbers::ln2) + 1e-9);
}

TEST_CASE("every kernel of normal numbers rounds to the floats of normal()") {
  struct {
    double mean, deviation;
  } const cases[] = {{0, 1}, {0, 0.02}, {0.5, -3}, {1e-6, 1e6}, {1, 1e-9}, {0, 0}, {-2, 2}};
  for (size_t k = 0; k < normal_kernels().size(); ++k)
    for (const auto& c : cases) {
      CAPTURE(k);
      CAPTURE(c.mean);
      CAPTURE(c.deviation);
      const plan::Parameter p = parameter(PLAIT_INIT_NORMAL, c.mean, c.deviation);
      const uint64_t stream = name_hash(p.name);
      int unsure = 0;
      constexpr int kCalls = 400;
      for (uint64_t call = 0; call < kCalls; ++call) {
        const uint64_t block = call < 390 ? call * kNormalBlocks : 0x3fffffffu + call * 12345;
        std::vector<float> found(kNormalElements);
        if (normal_kernels()[k](block, stream, 42, c.mean, c.deviation, found.data()))
          CHECK(equal_bits(found, normals(p, 42, 4 * block, kNormalElements)));
        else
          ++unsure;
      }
      CHECK(unsure < kCalls / 20);  // else the kernel is right and useless
    }
}

TEST_CASE("initial values do not depend on where a part begins, nor on threads") {
  for (const uint32_t init :
       {PLAIT_INIT_CONSTANT, PLAIT_INIT_UNIFORM, PLAIT_INIT_NORMAL, PLAIT_INIT_TRUNCATED}) {
    CAPTURE(init);
    const plan::Parameter p = parameter(init, -0.3, 0.7);
    constexpr size_t kSize = 70001;
    std::vector<float> whole(kSize);
    fill(p, 9, 0, whole);
    for (const size_t first : {1u, 2u, 3u, 4u, 255u, 256u, 69999u}) {
      std::vector<float> part(std::min<size_t>(kSize - first, 2000));
      fill(p, 9, static_cast<int64_t>(first), part);
      CHECK(std::memcmp(part.data(), &whole[first], part.size() * sizeof(float)) == 0);
    }
    for (const uint32_t threads : {2u, 3u, 8u}) {
      std::vector<float> found(kSize);
      fill(p, 9, 0, found, threads);
      CHECK(equal_bits(found, whole));
    }
    std::vector<float> none;
    fill(p, 9, 5, none, 4);
  }
}

TEST_CASE("normal and truncated initial values are those of normal(), element by element") {
  const plan::Parameter p = parameter(PLAIT_INIT_NORMAL, 0, 0.02);
  std::vector<float> found(300007);
  fill(p, 3, 5, found, 2);
  CHECK(equal_bits(found, normals(p, 3, 5, found.size())));
  std::vector<float> truncated(100000);
  fill(parameter(PLAIT_INIT_TRUNCATED, 0, 1), 3, 0, truncated);
  const std::vector<float> plain = normals(parameter(PLAIT_INIT_NORMAL, 0, 1), 3, 0, 100000);
  for (size_t i = 0; i < truncated.size(); ++i) {
    if (std::abs(truncated[i]) > 2) FAIL_CHECK(truncated[i]);
    if (std::abs(plain[i]) < 2 && plain[i] != truncated[i]) FAIL_CHECK(i);
  }
}

TEST_CASE("the values of f64 are those of normal(), unrounded") {
  const plan::Parameter p = parameter(PLAIT_INIT_NORMAL, 0.25, 3);
  std::vector<double> found(1003);
  session::initialize(p, 3, 5, 1003, PLAIT_F64, found.data(), 2);
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] != 0.25 + 3 * normal(5 + i, name_hash(p.name), 3)) FAIL_CHECK(i);
}

TEST_CASE("an error on one of several threads is an error of the call") {
  std::vector<int32_t> out(1 << 17);
  for (const uint32_t threads : {1u, 4u})
    CHECK_THROWS_AS(session::initialize(parameter(PLAIT_INIT_CONSTANT, 1, 0), 1, 0, 1 << 17,
                                        PLAIT_I32, out.data(), threads),
                    Error);
}

TEST_CASE("an unknown initialiser is the plugin's error and names the parameter") {
  std::vector<float> out(3);
  try {
    fill(parameter(99, 0, 1), 1, 0, out);
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_PLUGIN);
    CHECK(std::string(e.what()).find("model.linear1.weight") != std::string::npos);
  }
}

}  // namespace
}  // namespace plait::session

// Products of blocks of bf16 against a plain loop in double, with each way that the machine has.

#include "plugins/devices/cpu/half/block_products.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kit/half.hpp"

namespace plait::cpu {
namespace {

struct Size {
  int64_t rows, columns, depth;
};
constexpr Size kSizes[] = {{16, 32, 32}, {32, 32, 32}, {48, 64, 96}, {64, 128, 64}};
constexpr float kUntouched = 77;

// Operands with more in their rows than the product reads, and C with more than it writes.
struct Operands {
  Operands(const Size& s, uint32_t seed)
      : a(static_cast<size_t>(s.rows * a_row(s))), b(static_cast<size_t>(s.depth / 2 * b_row(s))) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> values(-1.0f, 1.0f);
    for (uint16_t& v : a) v = kit::to_bf16(values(random));
    for (uint16_t& v : b) v = kit::to_bf16(values(random));
    c.assign(static_cast<size_t>(s.rows * c_row(s)), kUntouched);
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t j = 0; j < s.columns; ++j)
        c[static_cast<size_t>(i * c_row(s) + j)] = values(random);
  }
  static int64_t a_row(const Size& s) { return s.depth + 2; }
  static int64_t b_row(const Size& s) { return 2 * s.columns + 8; }
  static int64_t c_row(const Size& s) { return s.columns + 4; }
  uint16_t& at_b(const Size& s, int64_t k, int64_t j) {
    return b[static_cast<size_t>(k / 2 * b_row(s) + 2 * j + k % 2)];
  }
  uint16_t& at_a(const Size& s, int64_t i, int64_t k) {
    return a[static_cast<size_t>(i * a_row(s) + k)];
  }
  std::vector<uint16_t> a, b;
  std::vector<float> c;
};

std::vector<float> multiplied(const BlockProducts& products, const Size& s, Operands& x, bool add) {
  std::vector<float> c = x.c;
  const InBlockProducts scope(products);
  products.multiply({x.a.data(), x.a_row(s)}, {x.b.data(), x.b_row(s)}, {c.data(), x.c_row(s)},
                    s.rows, s.columns, s.depth, add);
  return c;
}

void check_product(const BlockProducts& products, const Size& s, bool add) {
  Operands x(s, static_cast<uint32_t>(s.rows * s.columns + s.depth));
  const std::vector<float> found = multiplied(products, s, x, add);
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < x.c_row(s); ++j) {
      const auto at = static_cast<size_t>(i * x.c_row(s) + j);
      if (j >= s.columns) {
        CHECK(found[at] == kUntouched);
        continue;
      }
      double sum = add ? x.c[at] : 0, size = std::fabs(sum);
      for (int64_t k = 0; k < s.depth; ++k) {
        const double product =
            double{kit::from_bf16(x.at_a(s, i, k))} * double{kit::from_bf16(x.at_b(s, k, j))};
        sum += product;
        size += std::fabs(product);
      }
      // Products are exact, sums are f32.
      const double bound = static_cast<double>(s.depth) * 0x1p-24 * size;
      CHECK(std::fabs(found[at] - sum) <= bound);
    }
}

template <class F>
void with_each(const F& f) {
  for (const BlockProducts* p = all_block_products(); p->multiply; ++p) {
    CAPTURE(p->name);
    f(*p);
  }
}

TEST_CASE("products of blocks agree with a plain loop") {
  with_each([](const BlockProducts& products) {
    for (const Size& s : kSizes)
      for (const bool add : {false, true}) {
        CAPTURE(s.rows);
        CAPTURE(s.columns);
        CAPTURE(s.depth);
        check_product(products, s, add);
      }
  });
}

TEST_CASE("a product with NaN or infinity stays in its row and column") {
  const Size s{32, 64, 32};
  with_each([&](const BlockProducts& products) {
    Operands x(s, 5);
    x.at_a(s, 3, 7) = kit::to_bf16(std::numeric_limits<float>::quiet_NaN());
    x.at_b(s, 9, 40) = kit::to_bf16(std::numeric_limits<float>::infinity());
    const std::vector<float> c = multiplied(products, s, x, false);
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t j = 0; j < s.columns; ++j) {
        const float found = c[static_cast<size_t>(i * x.c_row(s) + j)];
        CHECK(std::isnan(found) == (i == 3));
        if (i != 3) CHECK(std::isinf(found) == (j == 40));
      }
  });
}

TEST_CASE("the list of products ends with the emulated ones, which every machine has") {
  int n = 0;
  with_each([&n](const BlockProducts&) { ++n; });
  CHECK(n >= 1);
  CHECK(n <= 3);
  const BlockProducts& best = block_products();
  if (best.multiply) CHECK(std::string(best.name) == all_block_products()[0].name);
}

}  // namespace
}  // namespace plait::cpu

// What the parsers of all products refuse alike.
#include "kit/ops/matmul.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kit/ops/float8.hpp"
#include "kit/ops/quantized.hpp"
#include "tests/unit/kit/shapes.hpp"

using namespace plait;
using namespace plait::kit;

namespace {

plait_attr yes(const char* name) { return {name, PLAIT_OPT_BOOL, 0, 1, 0, nullptr, nullptr}; }

// A product (2, 3, 32) by (5, 32), and what it refuses.
struct Product {
  const char* op;
  std::vector<plait_shape> inputs;
  std::vector<plait_attr> attrs;
  std::function<AnyMatmul(const plait_op_desc&)> parse;

  AnyMatmul parsed(std::vector<plait_shape> more, std::vector<plait_attr> with,
                   const plait_shape& y) const {
    more.insert(more.begin(), inputs.begin(), inputs.end());
    with.insert(with.begin(), attrs.begin(), attrs.end());
    plait_op_desc d{};
    d.struct_size = sizeof d;
    d.op = op;
    d.n_inputs = static_cast<uint32_t>(more.size());
    d.n_outputs = 1;
    d.n_attrs = static_cast<uint32_t>(with.size());
    d.inputs = more.data();
    d.outputs = &y;
    d.attrs = with.data();
    return parse(d);
  }
  std::string refused(const std::vector<plait_shape>& more, const std::vector<plait_attr>& with,
                      const plait_shape& y) const {
    try {
      parsed(more, with, y);
    } catch (const Invalid& e) {
      return e.what();
    }
    return "";
  }
};

std::vector<Product> products() {
  const plait_shape scalar = shape(PLAIT_F32, {});
  return {{"matmul",
           {shape(PLAIT_F32, {2, 3, 32}), shape(PLAIT_F32, {5, 32})},
           {yes("transpose_b")},
           [](const plait_op_desc& d) { return parse_matmul(d); }},
          {"matmul_f8",
           {shape(PLAIT_F8E4M3, {2, 3, 32}), shape(PLAIT_F8E4M3, {5, 32}), scalar, scalar},
           {},
           parse_matmul_f8},
          {"matmul_quantized",
           {shape(PLAIT_F32, {2, 3, 32}), shape(PLAIT_U8, {5, 32}), shape(PLAIT_F32, {5, 1})},
           {},
           parse_matmul_quantized}};
}

}  // namespace

TEST_CASE("every product has the same extents, bias, sum and result") {
  const plait_shape y = shape(PLAIT_F32, {2, 3, 5}), bias = shape(PLAIT_F32, {5});
  for (const Product& p : products()) {
    CAPTURE(p.op);
    const AnyMatmul plain = p.parsed({}, {}, y);
    CHECK(plain.m == 6);
    CHECK(plain.n == 5);
    CHECK(plain.k == 32);
    CHECK(plain.out == std::vector<int64_t>{2, 3, 5});
    CHECK(plain.activation == "none");
    CHECK(p.parsed({bias}, {yes("bias")}, y).bias);
    CHECK(p.parsed({y}, {yes("accumulate")}, y).accumulate);

    CHECK(p.refused({shape(PLAIT_F32, {4})}, {yes("bias")}, y) ==
          "bias has shape f32 (4), expected (5)");
    CHECK(p.refused({shape(PLAIT_F32, {5, 1})}, {yes("bias")}, y) ==
          "bias has shape f32 (5, 1), expected (5)");
    CHECK(p.refused({shape(PLAIT_U8, {5})}, {yes("bias")}, y) == "bias needs floats, found u8 (5)");
    CHECK(p.refused({bias, y}, {yes("bias"), yes("accumulate")}, y) ==
          "accumulate excludes bias and activation");
    CHECK(p.refused({shape(PLAIT_F32, {2, 3, 4})}, {yes("accumulate")}, y) ==
          "shapes differ: f32 (2, 3, 4) and f32 (2, 3, 5)");
    CHECK(p.refused({}, {}, shape(PLAIT_F32, {2, 3, 4})) ==
          "y has shape f32 (2, 3, 4), expected 30 elements");
    CHECK(p.refused({}, {}, shape(PLAIT_U8, {2, 3, 5})) == "y needs floats, found u8 (2, 3, 5)");
    const std::string n = std::to_string(p.inputs.size());
    CHECK(p.refused({bias}, {}, y) ==
          "takes " + n + " inputs, found " + std::to_string(p.inputs.size() + 1));
  }
}

TEST_CASE("a product with quantized weights names what is wrong with them, either way they lie") {
  const plait_attr along{"transpose_b", PLAIT_OPT_BOOL, 0, 0, 0, nullptr, nullptr};
  const plait_shape y = shape(PLAIT_F32, {3, 40});
  const auto refused = [&](int64_t rows, int64_t columns, const std::vector<plait_attr>& with) {
    const Product p{"matmul_quantized",
                    {shape(PLAIT_F32, {3, 32}), shape(PLAIT_U8, {rows, columns}),
                     shape(PLAIT_F32, {rows, (columns + 31) / 32})},
                    {},
                    parse_matmul_quantized};
    return p.refused({}, with, y);
  };
  CHECK(refused(40, 32, {}) == "");
  CHECK(refused(32, 40, {along}) == "");
  CHECK(refused(40, 32, {along}) ==
        "weights have 40 rows, expected 32, as many as a = f32 (3, 32) has columns");
}

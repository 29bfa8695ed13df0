// Products that read weights as numbers of 8 bits, and what stays as it is.
#include "engine/program/quantize.hpp"

#include "engine/base/error.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  // The numbers of the k-th weight that is asked for lie at 9:1000k, its scales 900 behind.
  void quantize(std::set<ValueId> weights, const std::string& format = "int8",
                Tables tables = Tables::kStay) {
    asked.clear();
    const auto rows = [&](ValueId v) {
      const uint64_t at = 1000 * asked.size();
      asked.push_back(v);
      Graph shapes(nullptr);
      const auto made = shapes.apply("quantize", {shapes.persistent("w", g.shape(v), {9, 0})},
                                     {attr("format", format)});
      return QuantizedRows{g.persistent("q", shapes.shape(made[0]), {9, at}),
                           g.persistent("s", shapes.shape(made[1]), {9, at + 900}), format};
    };
    quantize_products(g, weights, rows, tables);
    CHECK_FALSE(find_fault(g));
  }
  std::vector<ValueId> asked;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture,
                  "rows of a weight are read as numbers and scales, once for all readers") {
  read(R"(
    %1 f32 (2, 1, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 = persistent "w"
    %3 f32 (6) at 1:960 = persistent "b"
    %4 f32 (2, 1, 6) = matmul(%1, %2, %3) {transpose_b: true, bias: true} @fc
    %5 f32 (2, 1, 40) = map(%1) [max(x0, 0.0)] @relu
    %6 f32 (2, 1, 6) = matmul(%5, %2) {transpose_b: true} @head
  )");
  quantize({2, 3});
  CHECK(asked == std::vector<ValueId>{2});
  expect(R"(
    %1 f32 (2, 1, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 = persistent "w"
    %3 f32 (6) at 1:960 = persistent "b"
    %7 u8 (6, 40) at 9:0 = persistent "q"
    %8 f32 (6, 2) at 9:900 = persistent "s"
    %4 f32 (2, 1, 6) = matmul_quantized(%1, %7, %8, %3) {bias: true, columns: 40} @fc
    %5 f32 (2, 1, 40) = map(%1) [max(x0, 0.0)] @relu
    %6 f32 (2, 1, 6) = matmul_quantized(%5, %7, %8) {columns: 40} @head
  )");
}

TEST_CASE_FIXTURE(Fixture, "a cast of a weight is left out; the type of the result stays") {
  read(R"(
    %1 bf16 (2, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 = persistent "w"
    %3 bf16 (6, 40) = map(%2) [copy(x0)] @fc
    %4 f32 (2, 6) = matmul(%1, %3) {transpose_b: true, dtype: 1} @fc
    %5 bf16 (2, 6) = matmul(%1, %3) {transpose_b: true} @fc
  )");
  CHECK(only_quantized(g, 3));
  quantize({2});
  expect(R"(
    %1 bf16 (2, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 = persistent "w"
    %6 u8 (6, 40) at 9:0 = persistent "q"
    %7 f32 (6, 2) at 9:900 = persistent "s"
    %3 bf16 (6, 40) = map(%2) [copy(x0)] @fc
    %4 f32 (2, 6) = matmul_quantized(%1, %6, %7) {columns: 40, dtype: 1} @fc
    %5 bf16 (2, 6) = matmul_quantized(%1, %6, %7) {columns: 40} @fc
  )");
}

TEST_CASE_FIXTURE(Fixture, "products of values, sums over rows of a and rows of a table stay") {
  const char* lines = R"(
    %1 f32 (6, 2) at 0:0 = persistent "x"
    %2 f32 (6, 6) at 1:0 = persistent "w"
    %3 i32 (2) at 0:48 = persistent "ids"
    %4 f32 (2, 6) = matmul(%1, %2) {transpose_a: true} @fc
    %5 f32 (2, 6) = gather(%2, %3) @embed
    %6 f32 (2, 2) = matmul(%5, %5) {transpose_b: true} @scores
    %7 f32 (6, 6) = map(%2) [max(x0, 0.0)] @relu
    %8 f32 (2, 6) = matmul(%5, %7) {transpose_b: true} @fc
  )";
  expect_unchanged([&] { quantize({2}); }, lines);
  CHECK(asked.empty());
  CHECK_FALSE(only_quantized(g, 2));
}

// A forward and a backward product each of a weight (outputs, inputs) and of one (inputs, outputs).
TEST_CASE_FIXTURE(Fixture, "a backward pass and weights stored the other way read the same rows") {
  read(R"(
    %1 f32 (3, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 = persistent "w"
    %3 f32 (3, 6) = matmul(%1, %2) {transpose_b: true}
    %4 f32 (3, 40) = matmul(%3, %2) {operands: "gradient_weight"} @a backward
    %5 f32 (40, 8) at 1:960 = persistent "v"
    %6 f32 (3, 8) = matmul(%4, %5)
    %7 f32 (3, 40) = matmul(%6, %5) {transpose_b: true} @b backward
  )");
  CHECK(only_quantized(g, 2));
  CHECK(only_quantized(g, 5));
  quantize({2, 5}, "nf4");
  CHECK(asked == std::vector<ValueId>{2, 5});
  expect(R"(
    %1 f32 (3, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 = persistent "w"
    %5 f32 (40, 8) at 1:960 = persistent "v"
    %8 u8 (6, 21) at 9:0 = persistent "q"
    %9 f32 (6, 2) at 9:900 = persistent "s"
    %12 u8 (40, 5) at 9:1000 = persistent "q"
    %13 f32 (40, 2) at 9:1900 = persistent "s"
    %3 f32 (3, 6) = matmul_quantized(%1, %8, %9) {format: "nf4", columns: 40}
    %4 f32 (3, 40) = matmul_quantized(%3, %8, %9) )"
         R"({format: "nf4", columns: 40, transpose_b: false} @a backward
    %6 f32 (3, 8) = matmul_quantized(%4, %12, %13) {format: "nf4", columns: 8, transpose_b: false}
    %7 f32 (3, 40) = matmul_quantized(%6, %12, %13) {format: "nf4", columns: 8} @b backward
  )");
}

TEST_CASE_FIXTURE(Fixture, "rows of a table are read as numbers where that is asked for") {
  read(R"(
    %1 i32 (2, 3) at 0:0 = persistent "ids"
    %2 f32 (7, 40) at 1:0 = persistent "w"
    %3 bf16 (7, 40) = map(%2) [copy(x0)]
    %4 bf16 (2, 3, 40) = gather(%3, %1) {first: 7, total: 14}
    %5 bf16 (2, 3, 7) = matmul(%4, %3) {transpose_b: true}
  )");
  CHECK_FALSE(only_quantized(g, 3));
  CHECK(only_quantized(g, 3, Tables::kQuantized));
  quantize({2}, "int8", Tables::kQuantized);
  expect(R"(
    %1 i32 (2, 3) at 0:0 = persistent "ids"
    %2 f32 (7, 40) at 1:0 = persistent "w"
    %6 u8 (7, 40) at 9:0 = persistent "q"
    %7 f32 (7, 2) at 9:900 = persistent "s"
    %3 bf16 (7, 40) = map(%2) [copy(x0)]
    %4 bf16 (2, 3, 40) = gather_quantized(%6, %7, %1) {columns: 40, first: 7, total: 14, dtype: 3}
    %5 bf16 (2, 3, 7) = matmul_quantized(%4, %6, %7) {columns: 40}
  )");
}

// da is the product of dy with the same weights the other way, of the type of a.
TEST_CASE_FIXTURE(Fixture, "products with quantized weights have a gradient of their rows") {
  read(R"(
    %1 bf16 (3, 40) at 0:0 grad = persistent "x"
    %2 u8 (6, 21) at 1:0 = persistent "q"
    %3 f32 (6, 2) at 1:960 = persistent "s"
    %4 f32 (6) at 1:1008 grad = persistent "b"
    %5 f32 (3, 6) grad = matmul_quantized(%1, %2, %3, %4) {bias: true, format: "nf4", dtype: 1} @fc
    %6 f32 () grad = reduce(%5) {axes: [0, 1], keep: false} @sum
  )");
  const std::vector<ValueId> d = differentiate(g, 6, {1, 4});
  CHECK_FALSE(find_fault(g));
  CHECK(g.shape(d[0]).dtype == PLAIT_BF16);
  const Op& op = g.ops()[static_cast<size_t>(g.value(d[0]).producer)];
  CHECK(std::string(op.def->name) == "matmul_quantized");
  CHECK(op.attrs.integer("transpose_b", 1) == 0);
  CHECK(op.in[1] == 2);
  g.value(3).requires_grad = true;
  CHECK_THROWS_WITH_AS(differentiate(g, 6, {1, 3}),
                       "[fc] op 'matmul_quantized' has no gradient of quantized weights", Error);
}

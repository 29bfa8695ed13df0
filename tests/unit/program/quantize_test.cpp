// Products that read weights as numbers of 8 bits, and what stays as it is.
#include "engine/program/quantize.hpp"

#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  // The numbers of the k-th weight that is asked for lie at 9:1000k, its scales 900 behind.
  void quantize(std::set<ValueId> weights) {
    asked.clear();
    quantize_products(g, weights, [&](ValueId v) {
      const uint64_t at = 1000 * asked.size();
      asked.push_back(v);
      const int64_t n = g.shape(v).dims[0], k = g.shape(v).dims[1];
      return QuantizedRows{
          g.persistent("numbers", make_shape(PLAIT_U8, {n, k}), {9, at}),
          g.persistent("scales", make_shape(PLAIT_F32, {n, (k + 31) / 32}), {9, at + 900})};
    });
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
    %7 u8 (6, 40) at 9:0 = persistent "numbers"
    %8 f32 (6, 2) at 9:900 = persistent "scales"
    %4 f32 (2, 1, 6) = matmul_quantized(%1, %7, %8, %3) {bias: true} @fc
    %5 f32 (2, 1, 40) = map(%1) [max(x0, 0.0)] @relu
    %6 f32 (2, 1, 6) = matmul_quantized(%5, %7, %8) @head
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
    %6 u8 (6, 40) at 9:0 = persistent "numbers"
    %7 f32 (6, 2) at 9:900 = persistent "scales"
    %3 bf16 (6, 40) = map(%2) [copy(x0)] @fc
    %4 f32 (2, 6) = matmul_quantized(%1, %6, %7) {dtype: 1} @fc
    %5 bf16 (2, 6) = matmul_quantized(%1, %6, %7) @fc
  )");
}

TEST_CASE_FIXTURE(Fixture, "other orientations, products of values and rows of a table stay") {
  const char* lines = R"(
    %1 f32 (2, 6) at 0:0 = persistent "x"
    %2 f32 (6, 6) at 1:0 = persistent "w"
    %3 i32 (2) at 0:48 = persistent "ids"
    %4 f32 (2, 6) = matmul(%1, %2) @fc
    %5 f32 (2, 6) = gather(%2, %3) @embed
    %6 f32 (2, 2) = matmul(%1, %5) {transpose_b: true} @scores
    %7 f32 (6, 6) = map(%2) [max(x0, 0.0)] @relu
    %8 f32 (2, 6) = matmul(%1, %7) {transpose_b: true} @fc
  )";
  expect_unchanged([&] { quantize({2}); }, lines);
  CHECK(asked.empty());
  CHECK_FALSE(only_quantized(g, 2));
}

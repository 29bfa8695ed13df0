// Products that become products of 8-bit floats, forward and backward, and what stays as it is.
#include "engine/program/float8.hpp"

#include <plait/comm.h>

#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

constexpr Float8Formats kBoth{PLAIT_F8E4M3, PLAIT_F8E4M3}, kOff{};
constexpr Float8Rules kTensor{
    kBoth, {PLAIT_F8E5M2, PLAIT_F8E4M3}, {PLAIT_F8E4M3, PLAIT_F8E5M2}, false};

Float8Rules by_rows(Float8Rules rules) {
  rules.by_rows = true;
  return rules;
}

struct Fixture : TextFixture {
  std::set<ValueId> marked;
  void rewrite(std::set<ValueId> weights, const Float8Rules& rules) {
    marked = mark_products(g, weights);
    multiply_f8(g, rules);
    CHECK_FALSE(find_fault(g));
  }
  std::vector<const Op*> named(const std::string& name) const {
    std::vector<const Op*> all;
    for (const Op& op : g.ops())
      if (op.name == name) all.push_back(&op);
    return all;
  }
  // "f8e4m3 (3, 4)" of input k.
  std::string input(const Op& op, size_t k) const { return text(g.shape(op.in[k])); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a product with a weight reads numbers and a scale of each operand") {
  read(R"(
    %1 f32 (2, 3, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 = persistent "w"
    %3 f32 (6) at 1:960 = persistent "b"
    %4 f32 (2, 3, 6) = matmul(%1, %2, %3) {transpose_b: true, bias: true} @fc
  )");
  rewrite({2, 3}, kTensor);
  CHECK(marked == std::set<ValueId>{2});
  expect(R"(
    %1 f32 (2, 3, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 = persistent "w"
    %3 f32 (6) at 1:960 = persistent "b"
    %5 f32 () = greatest_magnitude(%1) @fc
    %6 f8e4m3 (2, 3, 40), %7 f32 () = quantize_f8(%1, %5) @fc
    %8 f32 () = greatest_magnitude(%2) @fc
    %9 f8e4m3 (6, 40), %10 f32 () = quantize_f8(%2, %8) @fc
    %4 f32 (2, 3, 6) = matmul_f8(%6, %9, %7, %10, %3) {bias: true, dtype: 1} @fc
  )");
}

TEST_CASE_FIXTURE(Fixture, "a weight that lies along the columns is transposed; rows have scales") {
  read(R"(
    %1 bf16 (4, 40) at 0:0 = persistent "x"
    %2 f32 (40, 6) at 1:0 = persistent "w"
    %3 bf16 (40, 6) = map(%2) [copy(x0)] @fc
    %4 bf16 (4, 6) = matmul(%1, %3) @fc
  )");
  rewrite({2}, by_rows(kTensor));
  expect(R"(
    %1 bf16 (4, 40) at 0:0 = persistent "x"
    %2 f32 (40, 6) at 1:0 = persistent "w"
    %3 bf16 (40, 6) = map(%2) [copy(x0)] @fc
    %5 f32 (4) = greatest_magnitude(%1) {of: "rows"} @fc
    %6 f8e4m3 (4, 40), %7 f32 (4) = quantize_f8(%1, %5) @fc
    %8 f32 (6) = greatest_magnitude(%3) {of: "columns"} @fc
    %9 f8e4m3 (6, 40), %10 f32 (6) = quantize_f8(%3, %8) {transpose: true} @fc
    %4 bf16 (4, 6) = matmul_f8(%6, %9, %7, %10) {dtype: 3} @fc
  )");
}

TEST_CASE_FIXTURE(Fixture, "products that read no chosen weight stay as they are") {
  const char* lines = R"(
    %1 f32 (2, 3, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 = persistent "w"
    %3 f32 (2, 3, 6) = matmul(%1, %2) {transpose_b: true} @head
    %4 f32 (2, 3, 3) = matmul(%1, %1) {transpose_b: true} @scores
  )";
  expect_unchanged([&] { rewrite({}, kTensor); }, lines);
  CHECK(marked.empty());
}

TEST_CASE_FIXTURE(Fixture, "gradients have formats of their own, with the gradient as e5m2") {
  read(R"(
    %1 f32 (4, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 grad = persistent "w"
    %3 f32 (8, 6) at 1:960 grad = persistent "v"
    %4 f32 (4, 6) grad = matmul(%1, %2) {transpose_b: true} @fc
    %5 f32 (4, 6) grad = map(%4) [tanh(x0)] @fc
    %6 f32 (4, 8) grad = matmul(%5, %3) {transpose_b: true} @head
    %7 f32 () grad = reduce(%6) {kind: "sum_squares", axes: [0, 1], keep: false} @loss
  )");
  marked = mark_products(g, {2, 3});
  CHECK(marked == std::set<ValueId>{2, 3});
  differentiate(g, 7, {2, 3});
  multiply_f8(g, kTensor);
  CHECK_FALSE(find_fault(g));
  CHECK(named("matmul").empty());
  const auto products = named("matmul_f8");
  // fc, head, gradients of head's input and weight, of fc's weight.
  REQUIRE(products.size() == 5);
  CHECK(input(*products[0], 0) == "f8e4m3 (4, 40)");
  std::vector<std::string> backward;
  for (size_t i = 2; i < 5; ++i)
    backward.push_back(input(*products[i], 0) + " x " + input(*products[i], 1));
  std::sort(backward.begin(), backward.end());
  CHECK(backward == std::vector<std::string>{"f8e5m2 (4, 8) x f8e4m3 (6, 8)",
                                             "f8e5m2 (6, 4) x f8e4m3 (40, 4)",
                                             "f8e5m2 (8, 4) x f8e4m3 (6, 4)"});
}

TEST_CASE_FIXTURE(Fixture, "each of the three products can be left as it is") {
  for (int off = 0; off < 3; ++off) {
    read(R"(
      %1 f32 (4, 40) at 0:0 grad = persistent "x"
      %2 f32 (40, 6) at 1:0 grad = persistent "w"
      %3 f32 (4, 6) grad = matmul(%1, %2) @fc
      %4 f32 () grad = reduce(%3) {kind: "sum_squares", axes: [0, 1], keep: false} @loss
    )");
    mark_products(g, {2});
    differentiate(g, 4, {1, 2});
    Float8Rules rules = kTensor;
    (off == 0 ? rules.forward : off == 1 ? rules.grad_input : rules.grad_weight) = kOff;
    multiply_f8(g, rules);
    CHECK_FALSE(find_fault(g));
    CHECK(named("matmul_f8").size() == 2);
    REQUIRE(named("matmul").size() == 1);
    CHECK_FALSE(is_marked(*named("matmul")[0]));
    const std::string a = input(*named("matmul")[0], 0);
    CHECK(a == (off == 1 ? "f32 (4, 6)" : "f32 (4, 40)"));
  }
}

TEST_CASE_FIXTURE(Fixture, "what several products read is quantized once") {
  read(R"(
    %1 f32 (4, 40) at 0:0 = persistent "x"
    %2 f32 (6, 40) at 1:0 = persistent "q"
    %3 f32 (8, 40) at 1:960 = persistent "k"
    %4 f32 (4, 6) = matmul(%1, %2) {transpose_b: true} @q
    %5 f32 (4, 8) = matmul(%1, %3) {transpose_b: true} @k
  )");
  rewrite({2, 3}, kTensor);
  CHECK(named("greatest_magnitude").size() == 3);
  CHECK(named("quantize_f8").size() == 3);
  CHECK(named("matmul_f8")[0]->in[0] == named("matmul_f8")[1]->in[0]);
}

// A scale is that of the whole tensor, whatever part of it a rank has.
TEST_CASE_FIXTURE(Fixture, "the greatest magnitude of a sharded operand is that of all ranks") {
  struct Expected {
    bool rows;
    int32_t dim;  // of the weight (40, 6)
    size_t compared, summed;
  };
  for (const Expected& e : {Expected{false, 0, 2, 1}, Expected{false, 1, 1, 0},
                            Expected{true, 0, 2, 1}, Expected{true, 1, 0, 0}}) {
    CAPTURE(e.rows);
    CAPTURE(e.dim);
    read(R"(
      %1 f32 (4, 40) at 0:0 = persistent "x"
      %2 f32 (40, 6) at 1:0 = persistent "w"
      %3 f32 (4, 6) = matmul(%1, %2) @fc
    )");
    rewrite({2}, e.rows ? by_rows(kTensor) : kTensor);
    std::map<ValueId, Placements> sharded{{2, {shard_along(e.dim)}}};
    // With rows of the weight, as a layer before would leave it.
    if (e.dim == 0) sharded[1] = {shard_along(1)};
    size_t compared = 0, summed = 0;
    std::vector<ValueId> made;
    const auto own = shard_graph(
        g, {{"tensor", 2, 1, false}}, sharded, {{3, {e.dim == 0 ? kReplicated : shard_along(1)}}},
        [&](size_t, const std::string&, uint32_t, uint32_t reduction, uint32_t, uint64_t) {
          (reduction == PLAIT_COMM_MAX ? compared : summed) += 1;
          return static_cast<int32_t>(compared + summed - 1);
        },
        made);
    CHECK(compared == e.compared);
    CHECK(summed == e.summed);
    CHECK_FALSE(find_fault(*own));
  }
}

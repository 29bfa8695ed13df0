// Shape rules: what they refuse, and what they say then.
#include <doctest/doctest.h>

#include "engine/base/error.hpp"
#include "engine/program/op_registry.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : GraphFixture {
  Fixture() { g.scope = "model.fc1"; }
  std::string refusal(const char* op, std::vector<ValueId> values, Attrs attrs = {}) {
    try {
      g.apply(op, std::move(values), std::move(attrs));
    } catch (const Error& e) {
      return e.text();
    }
    return "accepted";
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "matmul names scope, both shapes and the extents that differ") {
  CHECK(refusal("matmul", {in({32, 784}), in({120, 700})}, {attr("transpose_b", true)}) ==
        "[model.fc1] matmul: inner extents differ: 784 in f32 (32, 784), 700 in f32 (120, 700) "
        "transposed");
  CHECK(refusal("matmul", {in({784}), in({784, 2})}) ==
        "[model.fc1] matmul: needs matrices, found f32 (784) and f32 (784, 2)");
  CHECK(refusal("matmul", {in({2, 3}, PLAIT_U8), in({3, 2})}) ==
        "[model.fc1] matmul: needs two operands of one float type, found u8 (2, 3) and f32 (3, 2)");
  CHECK(refusal("matmul", {in({2, 3}), in({3, 4}), in({5})}, {attr("bias", true)}) ==
        "[model.fc1] matmul: bias has shape f32 (5), expected (4)");
}

TEST_CASE_FIXTURE(Fixture, "every rule refuses what does not fit") {
  CHECK(refusal("nonesuch", {in({1})}).find("there is no op 'nonesuch'") != std::string::npos);
  CHECK(refusal("matmull", {in({1}), in({1})}).find("did you mean 'matmul'") != std::string::npos);
  CHECK(refusal("add", {in({2})}) == "[model.fc1] add: takes 2 inputs, found 1");
  CHECK(refusal("reduce", {in({2, 3})}, {attr("axes", std::vector<int64_t>{2})}) != "accepted");
  CHECK(refusal("reduce", {in({2, 3})}, {attr("axes", std::vector<int64_t>{1, 0})}) != "accepted");
  CHECK(refusal("reduce", {in({2})}, {attr("kind", std::string("mean"))})
            .find("none of sum, max, sum_squares") != std::string::npos);
  CHECK(refusal("cross_entropy", {in({4, 10}), in({5}, PLAIT_I32)})
            .find("one label per row of 10 classes") != std::string::npos);
  CHECK(refusal("cross_entropy", {in({4, 10}), in({4})}).find("integer class indices") !=
        std::string::npos);
  CHECK(refusal("layer_norm", {in({4, 8}), in({7}), in({8})}) ==
        "[model.fc1] layer_norm: gain has shape f32 (7), rows have 8 channels");
  CHECK(refusal("gather", {in({4, 8}), in({3})}).find("integer indices") != std::string::npos);
  CHECK(refusal("reshape", {in({4, 8})}, {attr("shape", Dims{5, 6})}) ==
        "[model.fc1] reshape: f32 (4, 8) has 32 elements, f32 (5, 6) has 30");
  CHECK(refusal("transpose", {in({4, 8})}, {attr("perm", std::vector<int64_t>{0, 0})}) !=
        "accepted");
  CHECK(refusal("slice", {in({4, 8})}, {attr("axis", int64_t{1}), attr("stop", int64_t{9})}) !=
        "accepted");
  CHECK(refusal("slice", {in({4, 8})}, {attr("axis", int64_t{2}), attr("stop", int64_t{1})}) !=
        "accepted");
  CHECK(refusal("concat", {in({4, 8}), in({5, 8})}, {attr("axis", int64_t{1})}) != "accepted");
  const ValueId q = in({2, 4, 2, 3}), lse = in({2, 2, 4});
  CHECK(refusal("dot_product_attention_grad", {q, q, q, q, lse, in({2, 4, 2, 4})},
                {attr("scale", 1.0)}) ==
        "[model.fc1] dot_product_attention_grad: do is f32 (2, 4, 2, 4), expected f32 (2, 4, 2, "
        "3)");
  const ValueId scale = in({}, PLAIT_F64);
  CHECK(refusal("statistics", {in({4}), scale, scale}) ==
        "[model.fc1] statistics: takes 1 to 2 inputs, found 3");
  CHECK(refusal("add", {0, in({2})}).find("is no value of this program") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "operands of ops that the engine writes are counted, too") {
  const Attrs cache{attr("slots", int64_t{2}), attr("length", int64_t{4})};
  const ValueId rows = in({2, 1, 3, 5}), index = in({2}, PLAIT_I32), x = in({4});
  CHECK(refusal("kv_cache", {rows, index, index, index}, cache) ==
        "[model.fc1] kv_cache: takes 3 inputs, found 4");
  CHECK(refusal("collective_done", {x, x, x}, {attr("id", int64_t{0})}) ==
        "[model.fc1] collective_done: takes 1 to 2 inputs, found 3");
  const ValueId step = in({}, PLAIT_F64);
  CHECK(refusal("round_stochastic", {x, step, step},
                {attr("seed", int64_t{0}), attr("stream", int64_t{0})}) ==
        "[model.fc1] round_stochastic: takes 2 inputs, found 3");
}

TEST_CASE_FIXTURE(Fixture, "the same op on the same values is made once") {
  const ValueId x = in({3});
  CHECK(g.apply1("exp", {x}) == g.apply1("exp", {x}));
  CHECK(g.constant(2) == g.constant(2));
  CHECK(g.constant(2) != g.constant(2.0000000001));
  CHECK(g.apply1("reshape", {x}, {attr("shape", Dims{3, 1})}) !=
        g.apply1("reshape", {x}, {attr("shape", Dims{1, 3})}));
}

TEST_CASE_FIXTURE(Fixture, "element types of arithmetic") {
  auto type = [&](uint32_t a, uint32_t b) {
    return g.shape(g.apply1("add", {in({2}, a), in({2}, b)})).dtype;
  };
  CHECK(type(PLAIT_F32, PLAIT_F64) == PLAIT_F64);
  CHECK(type(PLAIT_BF16, PLAIT_BF16) == PLAIT_BF16);
  CHECK(type(PLAIT_BF16, PLAIT_F16) == PLAIT_F32);
  CHECK(type(PLAIT_U8, PLAIT_I64) == PLAIT_F32);
}

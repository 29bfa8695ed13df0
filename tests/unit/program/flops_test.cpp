// What ops cost, in multiplications and additions: reports, the utilization of a device and what is
// recomputed are made of it.
#include <doctest/doctest.h>

#include "engine/program/op_def.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : GraphFixture {
  const Op& op(const char* name, std::vector<ValueId> in, Attrs attrs) {
    g.apply(name, std::move(in), std::move(attrs));
    return g.ops().back();
  }
  double flops(const char* name, std::vector<ValueId> in, Attrs attrs = {}) {
    return flops_of(g, op(name, std::move(in), std::move(attrs)));
  }
  double unmasked(const char* name, std::vector<ValueId> in, Attrs attrs = {}) {
    return unmasked_flops_of(g, op(name, std::move(in), std::move(attrs)));
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a product costs two for each pair that meets, however it lies") {
  const ValueId a = in({3, 5}), b = in({5, 7});
  CHECK(flops("matmul", {a, b}) == 2 * 3 * 5 * 7);
  CHECK(flops("matmul", {in({5, 3}), b}, {attr("transpose_a", true)}) == 2 * 3 * 5 * 7);
  CHECK(flops("matmul", {in({2, 3, 5}), in({2, 7, 5})}, {attr("transpose_b", true)}) ==
        2 * 2 * 3 * 5 * 7);
}

TEST_CASE_FIXTURE(Fixture, "a grouped product costs what the matrices of this rank take") {
  const ValueId x = in({12, 5}), all = in({5}, PLAIT_I32);
  CHECK(flops("grouped_matmul", {x, in({4, 5, 7}), all}) == 2 * 12 * 5 * 7);
  CHECK(flops("grouped_matmul_grad", {x, in({12, 7}), all}) == 2 * 12 * 5 * 7);
}

TEST_CASE_FIXTURE(Fixture, "attention costs the pairs that its mask lets through") {
  const ValueId q = in({2, 4, 3, 8}), k = in({2, 4, 3, 8}), v = in({2, 4, 3, 6});
  const double heads = 2 * 3, pair = 2 * (8 + 6);
  const auto attrs = [](bool causal, int64_t window) {
    Attrs given{attr("scale", 0.5), attr("causal", causal)};
    if (window > 0) given.set(attr("window", window));
    return given;
  };
  CHECK(flops("dot_product_attention", {q, k, v}, attrs(false, 0)) == heads * pair * 16);
  CHECK(flops("dot_product_attention", {q, k, v}, attrs(true, 0)) == heads * pair * 10);
  CHECK(flops("dot_product_attention", {q, k, v}, attrs(true, 2)) == heads * pair * 7);
  CHECK(unmasked("dot_product_attention", {q, k, v}, attrs(true, 3)) == heads * pair * 16);
  // The gradient has three products of q's channels and two of v's.
  const ValueId stats = in({2, 3, 4}), o = in({2, 4, 3, 6});
  CHECK(flops("dot_product_attention_grad", {q, k, v, o, stats, o}, attrs(true, 0)) ==
        heads * (6 * 8 + 4 * 6) * 10);
}

TEST_CASE_FIXTURE(Fixture, "attention over a cache costs its places, or those of a window within") {
  const ValueId q = in({2, 3, 4, 8}), k = in({5, 16, 2, 8}), v = in({5, 16, 2, 6}),
                slot = in({2}, PLAIT_I32), at = in({2, 3}, PLAIT_I32);
  const double queries = 2 * 3 * 4, pair = 2 * (8 + 6);
  for (const auto& [window, keys] :
       {std::pair<int64_t, double>{0, 16}, {1, 1}, {5, 5}, {16, 16}, {40, 16}}) {
    CAPTURE(window);
    CHECK(flops("attention_cached", {q, k, v, slot, at},
                {attr("scale", 0.5), attr("window", window)}) == queries * pair * keys);
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "what only moves costs nothing, an op without a rule one for each number") {
  const ValueId x = in({2, 3, 4, 8});
  CHECK(flops("reshape", {x}, {attr("shape", Dims{6, 32})}) == 0);
  CHECK(flops("transpose", {x}, {attr("perm", Dims{0, 2, 1, 3})}) == 0);
  CHECK(flops("gather", {in({9, 5}), in({4}, PLAIT_I32)}) == 4 * 5);
  CHECK(flops("exp", {x}) == 2 * 3 * 4 * 8);
  // Eight for each number of a norm and of its gradient.
  const ValueId c = in({5}), y = in({4, 5}), r = in({4});
  CHECK(flops("layer_norm", {y, c, c}, {attr("eps", 0.5)}) == 4 * 5 * 8);
  CHECK(flops("layer_norm_grad", {y, c, r, r, y}, {attr("eps", 0.5)}) == 4 * 5 * 8);
  CHECK(flops("rms_norm", {y, c}, {attr("eps", 0.5)}) == 4 * 5 * 8);
  CHECK(flops("rms_norm_grad", {y, c, r, y}, {attr("eps", 0.5)}) == 4 * 5 * 8);
  // Six for each pair of channels that is turned.
  CHECK(flops("rope", {x, in({3, 2}), in({3, 2})}) == 2 * 3 * 4 * 2 * 6);
}

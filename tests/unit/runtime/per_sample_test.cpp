// Values of which each sample has its own: results and gradients are those of every sample computed
// alone.
#include "engine/program/per_sample.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/base/error.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;
using program::attr;
using program::Attrs;
using program::Dims;
using program::Graph;
using program::make_shape;
using program::ValueId;

namespace {

constexpr int64_t kSamples = 5, kStacked = 3;
const std::vector<double> kIndex{2, 0, 2, 1, 0};

// What a method would write of x (N, ..) and of parameters; w is shared.
using Apply = std::function<ValueId(const char*, std::vector<ValueId>, Attrs)>;
struct Method {
  const char* name;
  Dims x;                 // of one sample
  std::vector<Dims> own;  // parameters of each sample
  Dims w;
  std::function<ValueId(Graph&, const Apply&, ValueId x, const std::vector<ValueId>& p, ValueId w)>
      write;
  bool looks_up = false;  // x are numbers of rows
};

const Attrs kTransposed{attr("transpose_b", true)};

std::vector<Method> methods() {
  return {
      {"a product of several rows",
       {4, 3},
       {{2, 3}},
       {1},
       [](Graph&, const Apply& op, ValueId x, auto& p, ValueId) {
         return op("matmul", {x, p[0]}, kTransposed);
       }},
      {"two products of one row",
       {3},
       {{2, 3}, {2, 4}},
       {1},
       [](Graph&, const Apply& op, ValueId x, auto& p, ValueId) {
         return op("matmul", {op("matmul", {x, p[0]}, kTransposed), p[1]}, {});
       }},
      {"a product of rows along two axes",
       {2, 2, 3},
       {{3, 2}},
       {1},
       [](Graph&, const Apply& op, ValueId x, auto& p, ValueId) {
         return op("matmul", {x, p[0]}, {});
       }},
      {"a vector of features",
       {4, 3},
       {{3}},
       {3},
       [](Graph& g, const Apply& op, ValueId x, auto& p, ValueId w) {
         const ValueId less = op("sub", {p[0], g.constant(1)}, {});
         return op("add", {op("mul", {x, less}, {}), op("mul", {p[0], w}, {})}, {});
       }},
      {"a number",
       {4},
       {{}},
       {1},
       [](Graph&, const Apply& op, ValueId x, auto& p, ValueId) {
         return op("mul", {x, op("tanh", {p[0]}, {})}, {});
       }},
      {"rows of tables",
       {4},
       {{6, 3}, {2, 3}},
       {1},
       [](Graph&, const Apply& op, ValueId x, auto& p, ValueId) {
         return op("matmul", {op("gather", {p[0], x}, {}), p[1]}, kTransposed);
       },
       true},
      {"rows of a table and a shared one",
       {2, 2},
       {{5, 3}},
       {1, 3},
       [](Graph&, const Apply& op, ValueId x, auto& p, ValueId w) {
         return op("gather", {op("concat", {w, p[0]}, {}), x}, {});
       },
       true},
      {"norms of changed weights",
       {4, 3},
       {{3, 2}, {2, 5}},
       {3, 5},
       [](Graph&, const Apply& op, ValueId x, auto& p, ValueId w) {
         const ValueId sum = op("add", {w, op("matmul", {p[0], p[1]}, {})}, {});
         const ValueId squares = op("reduce", {op("mul", {sum, sum}, {})},
                                    {attr("axes", std::vector<int64_t>{1}), attr("keep", false)});
         return op("div", {x, op("sqrt", {squares}, {})}, {});
       }},
      {"other axes",
       {4, 3},
       {{2, 6}},
       {1},
       [](Graph&, const Apply& op, ValueId x, auto& p, ValueId) {
         const ValueId part =
             op("slice", {p[0]},
                {attr("axis", int64_t{1}), attr("start", int64_t{1}), attr("stop", int64_t{4})});
         const ValueId turned = op("transpose", {part}, {attr("perm", std::vector<int64_t>{1, 0})});
         return op("matmul", {x, op("reshape", {turned}, {attr("shape", Dims{3, 2})})}, {});
       }},
  };
}

std::vector<double> numbers(int64_t n, double salt) {
  std::vector<double> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = 0.3 + std::fmod((static_cast<double>(i) + salt) * 0.6180339887498949, 1.0);
  return v;
}

// The sum of all elements, each times a number of its own, and gradients of x, w and the stacks.
std::vector<ValueId> results(Graph& g, ValueId y, const std::vector<ValueId>& of) {
  const int64_t n = program::elements(g.shape(y));
  std::vector<ValueId> out{y};
  const ValueId flat = program::reshaped(g, y, {n});
  const ValueId loss =
      program::sum_to(g, program::binary(g, "mul", flat, program::binary(g, "mul", flat, flat)),
                      make_shape(PLAIT_F64, {}));
  for (const ValueId d : program::differentiate(g, loss, of))
    if (d) out.push_back(d);
  return out;
}

struct Inputs {
  std::vector<plait_shape> shapes;
  test::Runner::Values values;
  void add(Dims dims, double salt, uint32_t dtype = PLAIT_F64) {
    shapes.push_back(make_shape(dtype, dims));
    values.push_back(numbers(program::elements(shapes.back()), salt));
  }
};

// Index, x, w, and for each parameter G values.
Inputs inputs_of(const Method& m) {
  Inputs all;
  all.add({kSamples}, 0, PLAIT_I32);
  all.values[0] = kIndex;
  Dims x = m.x;
  x.insert(x.begin(), kSamples);
  all.add(x, 1, m.looks_up ? PLAIT_I32 : PLAIT_F64);
  if (m.looks_up)
    for (size_t i = 0; i < all.values[1].size(); ++i)
      all.values[1][i] = static_cast<double>(i * 7 % 6);
  all.add(m.w, 2);
  for (size_t p = 0; p < m.own.size(); ++p)
    for (int64_t k = 0; k < kStacked; ++k)
      all.add(m.own[p], 3 + 0.37 * static_cast<double>(p) + 1.71 * static_cast<double>(k));
  return all;
}

std::vector<ValueId> wanted(const Method& m, const std::vector<ValueId>& in) {
  std::vector<ValueId> of(in.begin() + (m.looks_up ? 2 : 1), in.end());
  return of;
}

bool follows_from(const Graph& g, ValueId v, ValueId x) {
  if (v == x || g.value(v).producer < 0) return v == x;
  const auto& in = g.ops()[static_cast<size_t>(g.value(v).producer)].in;
  return std::any_of(in.begin(), in.end(), [&](ValueId one) { return follows_from(g, one, x); });
}

std::vector<ValueId> together(const Method& m, Graph& g, const std::vector<ValueId>& in) {
  g.value(in[0]).requires_grad = false;
  if (m.looks_up) g.value(in[1]).requires_grad = false;
  program::PerSample own(g, in[0], [&](ValueId v) { return !follows_from(g, v, in[1]); });
  std::vector<ValueId> p;
  for (size_t k = 0; k < m.own.size(); ++k)
    p.push_back(own.stand_for({in.begin() + 3 + static_cast<std::ptrdiff_t>(k) * kStacked,
                               in.begin() + 3 + static_cast<std::ptrdiff_t>(k + 1) * kStacked}));
  const Apply op = [&](const char* name, std::vector<ValueId> operands, Attrs attrs) {
    return own.apply(name, std::move(operands), std::move(attrs))[0];
  };
  return results(g, m.write(g, op, in[1], p, in[2]), wanted(m, in));
}

std::vector<ValueId> one_by_one(const Method& m, Graph& g, const std::vector<ValueId>& in) {
  g.value(in[0]).requires_grad = false;
  if (m.looks_up) g.value(in[1]).requires_grad = false;
  const Apply op = [&](const char* name, std::vector<ValueId> operands, Attrs attrs) {
    return g.apply1(name, std::move(operands), std::move(attrs));
  };
  std::vector<ValueId> rows;
  for (int64_t n = 0; n < kSamples; ++n) {
    const ValueId x = g.apply1("slice", {in[1]},
                               {attr("axis", int64_t{0}), attr("start", n), attr("stop", n + 1)});
    std::vector<ValueId> p;
    for (size_t k = 0; k < m.own.size(); ++k)
      p.push_back(in[3 + k * kStacked + static_cast<size_t>(kIndex[static_cast<size_t>(n)])]);
    rows.push_back(m.write(g, op, x, p, in[2]));
  }
  return results(g, g.apply1("concat", rows), wanted(m, in));
}

}  // namespace

TEST_CASE("each sample's own parameters: as if it were computed alone") {
  test::Runner runner("reference");
  for (const Method& m : methods()) {
    CAPTURE(m.name);
    const Inputs inputs = inputs_of(m);
    const auto run = [&](const auto& build) {
      return runner.run(inputs.shapes, inputs.values,
                        [&](Graph& g, const std::vector<ValueId>& in) { return build(m, g, in); });
    };
    const auto got = run(together), expected = run(one_by_one);
    REQUIRE(got.size() == expected.size());
    CHECK(got.size() >= 2);
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      REQUIRE(got[i].size() == expected[i].size());
      for (size_t e = 0; e < got[i].size(); ++e)
        CHECK(got[i][e] == doctest::Approx(expected[i][e]).epsilon(1e-13).scale(1));
    }
  }
}

TEST_CASE("a number of no value makes the sample's result not a number, and no other's") {
  test::Runner runner("reference");
  const auto out =
      runner.run({make_shape(PLAIT_I32, {2}), make_shape(PLAIT_F64, {2, 3}),
                  make_shape(PLAIT_F64, {3}), make_shape(PLAIT_I32, {2, 3})},
                 {{0, 1}, {1, 2, 3, 4, 5, 6}, {1, 1, 1}, {0, 1, 2, 0, 1, 2}},
                 [](Graph& g, const std::vector<ValueId>& in) {
                   program::PerSample own(g, in[0], [&](ValueId v) { return v == in[2]; });
                   const ValueId p = own.stand_for({in[2]});
                   return std::vector<ValueId>{own.apply("mul", {in[1], p}, {})[0],
                                               own.apply("gather", {p, in[3]}, {})[0]};
                 });
  for (const std::vector<double>& y : out)
    for (size_t i = 0; i < y.size(); ++i) {
      CAPTURE(i);
      CHECK(std::isnan(y[i]) == (i >= 3));
    }
}

TEST_CASE("what cannot be computed is refused with the op and the reason") {
  test::Runner runner("reference");
  const auto refusal = [&](const char* op, const std::vector<int>& operands, const Attrs& attrs) {
    const auto call = [&] {
      runner.run({make_shape(PLAIT_I32, {2}), make_shape(PLAIT_F64, {2, 3, 3}),
                  make_shape(PLAIT_F64, {3, 3})},
                 {{0, 0}, numbers(18, 1), numbers(9, 2)},
                 [&](Graph& g, const std::vector<ValueId>& in) {
                   g.scope = "model.fc";
                   program::PerSample own(g, in[0], [&](ValueId v) { return v == in[2]; });
                   const ValueId all[] = {in[1], own.stand_for({in[2]}), in[2], in[0]};
                   std::vector<ValueId> given;
                   for (const int k : operands) given.push_back(all[k]);
                   return own.apply(op, given, attrs);
                 });
    };
    return test::error_of(call, PLAIT_ERR_UNIMPLEMENTED);
  };
  const std::string head = ": cannot read parameters that differ from sample to sample: ";
  CHECK(refusal("matmul", {1, 0}, {}) ==
        "[model.fc] matmul" + head +
            "it multiplies rows of the samples by matrices of their own, nothing else");
  CHECK(refusal("rms_norm", {0, 1}, {}) ==
        "[model.fc] rms_norm" + head + "it has no rule for them");
  CHECK(refusal("concat", {0, 1}, {}) ==
        "[model.fc] concat" + head + "it would put them beside rows of samples");
  CHECK(refusal("mul", {1, 3}, {}) ==
        "[model.fc] mul" + head +
            "operand 1 i32 (2) has fewer axes than a parameter and one of samples");
  // The axis in front of the first is that of the adapters.
  const int64_t before = -1;
  CHECK(refusal("slice", {1}, {attr("axis", before), attr("stop", int64_t{1})}) ==
        "[model.fc] slice" + head + "a parameter has 2 axes, and `axis` names another");
  CHECK(refusal("concat", {1, 1}, {attr("axis", before)}) ==
        "[model.fc] concat" + head + "a parameter has no axis -1");
  CHECK(refusal("gather", {2, 1}, {}) ==
        "[model.fc] gather" + head +
            "it looks up rows of the samples in tables of their own, nothing else");
}

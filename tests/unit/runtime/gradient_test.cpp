// Every op's gradient rule against central differences, in double on the reference device. One table.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <set>

#include "engine/base/error.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/rule.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;
using program::attr;
using program::Attrs;
using program::Graph;
using program::make_shape;
using program::ValueId;

namespace {

struct Case {
  std::string op;
  std::vector<program::Dims> inputs;  // floats
  Attrs attrs;
  double low = -1.5, high = 1.5;  // range of the inputs
  std::vector<std::vector<double>> indices =
      {};  // integer inputs, appended; shape: the leading dims of input 0
  program::Dims index_dims = {};
};

Attrs axes(const char* kind, std::vector<int64_t> list, bool keep) {
  return {attr("kind", std::string(kind)), attr("axes", std::move(list)), attr("keep", keep)};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* op : {"copy", "neg", "abs", "exp", "tanh", "sigmoid", "erf", "relu", "expm1"})
    all.push_back({op, {{3, 5}}, {}});
  for (const uint32_t to : {PLAIT_F32, PLAIT_F64})
    all.push_back({"cast", {{3, 5}}, {attr("dtype", static_cast<int64_t>(to))}});
  for (const char* op : {"log", "sqrt", "rsqrt", "recip", "log1p"})
    all.push_back({op, {{3, 5}}, {}, 0.3, 2.0});
  for (const char* op : {"floor", "sign"}) all.push_back({op, {{7}}, {}, 0.1, 0.9});
  for (const char* op : {"add", "sub", "mul", "max", "min"}) {
    all.push_back({op, {{3, 5}, {3, 5}}, {}});
    all.push_back({op, {{3, 5}, {5}}, {}});
    all.push_back({op, {{3, 1}, {4, 1, 5}}, {}});
    all.push_back({op, {{2, 3}, {}}, {}});
  }
  all.push_back({"div", {{3, 5}, {5}}, {}, 0.5, 2.0});
  all.push_back({"pow", {{3, 5}, {5}}, {}, 0.5, 2.0});
  all.push_back({"fma", {{3, 5}, {5}, {3, 1}}, {}});
  all.push_back({"select", {{4}, {4}, {4}}, {}, 0.2, 1.0});
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const Attrs t = {attr("transpose_a", ta), attr("transpose_b", tb)};
      const program::Dims a = ta ? program::Dims{4, 3} : program::Dims{3, 4},
                          b = tb ? program::Dims{2, 4} : program::Dims{4, 2};
      all.push_back({"matmul", {a, b}, t});
      program::Dims ba = a, bb = b;
      ba.insert(ba.begin(), 2);
      bb.insert(bb.begin(), 2);
      all.push_back({"matmul", {ba, bb}, t});
      if (!ta) all.push_back({"matmul", {ba, b}, t});
    }
  all.push_back({"matmul", {{3, 4}, {2, 4}, {2}}, {attr("transpose_b", true), attr("bias", true)}});
  for (const char* kind : {"sum", "sum_squares", "max"})
    for (bool keep : {true, false}) {
      all.push_back({"reduce", {{3, 4, 2}}, axes(kind, {1}, keep)});
      all.push_back({"reduce", {{3, 4, 2}}, axes(kind, {0, 2}, keep)});
    }
  all.push_back({"softmax", {{3, 5}}, {}});
  all.push_back({"log_softmax", {{2, 3, 5}}, {}});
  for (double s : {0.0, 0.1}) {
    Case c{"cross_entropy", {{4, 5}}, {attr("label_smoothing", s)}};
    c.indices = {{0, 4, -1, 2}};
    c.index_dims = {4};
    all.push_back(c);
  }
  all.push_back({"layer_norm", {{3, 5}, {5}, {5}}, {attr("eps", 1e-5)}});
  all.push_back({"rms_norm", {{2, 3, 5}, {5}}, {attr("eps", 1e-5)}});
  Case gather{"gather", {{6, 3}}, {}};
  gather.indices = {{0, 5, 2, 2}};
  gather.index_dims = {2, 2};
  all.push_back(gather);
  Case scatter{"scatter_add", {{2, 2, 3}}, {attr("rows", int64_t{6})}};
  scatter.indices = {{0, 5, 2, 2}};
  scatter.index_dims = {2, 2};
  all.push_back(scatter);
  all.push_back({"reshape", {{3, 4}}, {attr("shape", program::Dims{2, 6})}});
  all.push_back({"transpose", {{2, 3, 4}}, {attr("perm", std::vector<int64_t>{2, 0, 1})}});
  all.push_back({"slice",
                 {{3, 6}},
                 {attr("axis", int64_t{1}), attr("start", int64_t{1}), attr("stop", int64_t{4})}});
  all.push_back(
      {"pad",
       {{3, 2}},
       {attr("axis", int64_t{1}), attr("before", int64_t{1}), attr("after", int64_t{2})}});
  all.push_back({"concat", {{3, 2}, {3, 1}, {3, 4}}, {attr("axis", int64_t{1})}});
  return all;
}

// Numbers that no kink (0, ties) is near to.
std::vector<double> numbers(size_t n, double low, double high, unsigned salt) {
  std::vector<double> v(n);
  for (size_t i = 0; i < n; ++i) {
    double u = std::fmod((static_cast<double>(i) + 1 + salt * 7.31) * 0.6180339887498949, 1.0);
    v[i] = low + (high - low) * u;
    if (std::abs(v[i]) < 0.03) v[i] = 0.07;
  }
  return v;
}

// loss = sum over outputs of output * fixed weights, so that every output element matters differently.
ValueId weighted_loss(Graph& g, const std::vector<ValueId>& outputs, const std::string& op) {
  ValueId loss = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (k > 0 && (op == "cross_entropy" || op == "layer_norm" || op == "rms_norm"))
      break;  // kept for backward only
    const plait_shape& s = g.shape(outputs[k]);
    ValueId flat = program::reshaped(g, outputs[k], {1, program::elements(s)});
    // weights 1, 2, 3, ...: a matmul with them is the weighted sum
    ValueId sum = 0;
    for (int64_t i = 0; i < program::elements(s); ++i) {
      const ValueId e = g.apply1("slice", {flat},
                                 {attr("axis", int64_t{1}), attr("start", i), attr("stop", i + 1)});
      const ValueId term = program::scaled(g, e, 0.5 + 0.25 * static_cast<double>(i % 7));
      sum = sum ? program::binary(g, "add", sum, term) : term;
    }
    sum = program::reshaped(g, sum, {});
    loss = loss ? program::binary(g, "add", loss, sum) : sum;
  }
  return loss;
}

}  // namespace

TEST_CASE("gradients agree with central differences") {
  test::Runner runner("reference");
  std::set<std::string> covered;
  for (const Case& c : cases()) {
    CAPTURE(c.op);
    covered.insert(c.op);
    std::vector<plait_shape> shapes;
    test::Runner::Values inputs;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      shapes.push_back(make_shape(PLAIT_F64, c.inputs[i]));
      inputs.push_back(numbers(static_cast<size_t>(program::elements(shapes.back())), c.low, c.high,
                               static_cast<unsigned>(i)));
      CAPTURE(program::text(shapes.back()));
    }
    for (const auto& index : c.indices) {
      shapes.push_back(make_shape(PLAIT_I32, c.index_dims));
      inputs.push_back(index);
    }
    auto loss_of = [&](Graph& g, const std::vector<ValueId>& in) {
      return weighted_loss(g, g.apply(c.op, in, c.attrs), c.op);
    };
    const auto exact = runner.run(shapes, inputs, [&](Graph& g, const std::vector<ValueId>& in) {
      const ValueId loss = loss_of(g, in);
      const std::vector<ValueId> floats(in.begin(),
                                        in.begin() + static_cast<long>(c.inputs.size()));
      auto d = program::differentiate(g, loss, floats);
      std::vector<ValueId> out{loss};
      for (size_t i = 0; i < d.size(); ++i)
        out.push_back(d[i] ? d[i] : program::filled(g, g.shape(in[i]), 0));
      return out;
    });
    auto value = [&](const test::Runner::Values& at) {
      return runner.run(shapes, at, [&](Graph& g, const std::vector<ValueId>& in) {
        return std::vector{loss_of(g, in)};
      })[0][0];
    };
    // Outputs in f32 (cross-entropy's rows) limit what a difference can show.
    const bool narrow = c.op == "cross_entropy" || c.op == "cast";
    const double h = narrow ? 1e-2 : 1e-5, tolerance = narrow ? 2e-4 : 1e-7;
    const bool flat = c.op == "select";  // of the condition
    for (size_t i = 0; i < c.inputs.size(); ++i)
      for (size_t e = 0; e<inputs[i].size(); e += inputs[i].size()> 12 ? 3 : 1) {
        auto up = inputs, down = inputs;
        up[i][e] += h;
        down[i][e] -= h;
        const double numeric = flat && i == 0 ? 0 : (value(up) - value(down)) / (2 * h);
        CAPTURE(i);
        CAPTURE(e);
        CHECK(exact[i + 1][e] == doctest::Approx(numeric).epsilon(tolerance).scale(1));
      }
  }
  // The table is complete: each core op with a gradient and each element-wise name stands in it.
  for (const program::Rule* r : program::core_rules())
    if (r->gradient && std::string(r->name) != "map")
      CHECK_MESSAGE(covered.count(r->name) == 1, r->name);
  for (const auto& name : program::elementwise_names()) {
    const bool truth = name == "lt" || name == "le" || name == "eq" || name == "and" ||
                       name == "or" || name == "not" || name == "is_finite";
    if (!truth) CHECK_MESSAGE(covered.count(name) == 1, name);
  }
}

TEST_CASE("a value used twice gets the sum of both gradients, and a tied one counts once") {
  test::Runner runner("reference");
  const auto out = runner.run(
      {make_shape(PLAIT_F64, {3})}, {{2, 3, 5}}, [](Graph& g, const std::vector<ValueId>& in) {
        const ValueId y = program::binary(g, "add", program::binary(g, "mul", in[0], in[0]),
                                          in[0]);  // x^2 + x
        const ValueId loss = g.apply1("reduce", {y},
                                      {attr("kind", std::string("sum")),
                                       attr("axes", std::vector<int64_t>{0}), attr("keep", false)});
        return program::differentiate(g, loss, {in[0]});
      });
  CHECK(out[0] == std::vector<double>{5, 7, 11});
}

TEST_CASE("an op without a gradient rule is named with its scope") {
  test::Runner runner("reference");
  const auto build = [](Graph& g, const std::vector<ValueId>& in) {
    g.scope = "model.odd";
    const ValueId y = g.apply1("softmax_grad", {in[0], in[0]});
    g.scope = "loss";
    const ValueId loss = g.apply1("reduce", {y},
                                  {attr("kind", std::string("sum")),
                                   attr("axes", std::vector<int64_t>{0}), attr("keep", false)});
    return program::differentiate(g, loss, {in[0]});
  };
  CHECK_THROWS_WITH_AS(runner.run({make_shape(PLAIT_F64, {3})}, {{1, 2, 3}}, build),
                       "[model.odd] op 'softmax_grad' has no gradient, but the loss depends on it",
                       Error);
}

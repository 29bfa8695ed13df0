// Every op's gradient rule against central differences, in double on the reference device. One
// table.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;
using program::attr;
using program::Graph;
using program::make_shape;
using program::ValueId;

namespace {

using program::OpDef;
using program::OpExample;

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

// loss = sum over outputs of output * fixed weights, so that every output element matters
// differently. What is kept for the backward pass alone does not count.
ValueId weighted_loss(Graph& g, const OpDef& def, const std::vector<ValueId>& outputs,
                      ValueId weights) {
  ValueId loss = 0;
  for (size_t k = 0; k < std::min(outputs.size(), def.differentiable_outputs); ++k) {
    const int64_t n = program::elements(g.shape(outputs[k]));
    const ValueId own = g.apply1(
        "slice", {weights}, {attr("axis", int64_t{0}), attr("start", int64_t{0}), attr("stop", n)});
    const ValueId terms = program::binary(g, "mul", program::reshaped(g, outputs[k], {n}), own);
    const ValueId sum = program::sum_to(g, terms, make_shape(PLAIT_F64, {}));
    loss = loss ? program::binary(g, "add", loss, sum) : sum;
  }
  return loss;
}

constexpr int64_t kWeights = 256;

// The program of one example: loss, then the gradients of all float inputs. Its last input are the
// weights.
struct Probe {
  Probe(test::Runner& runner, const OpDef& def, const OpExample& example)
      : n_floats(example.inputs.size()),
        inputs(values_of(example)),
        program(runner.prepare(shapes_of(example), [&](Graph& g, std::vector<ValueId> in) {
          const ValueId weights = in.back();
          in.pop_back();
          g.value(weights).requires_grad = false;
          for (size_t k = 0; k < example.tables.size(); ++k)
            g.value(in[example.inputs.size() + k]).requires_grad = false;
          const auto outputs = g.apply(def.name, in, example.attrs);
          narrow = g.shape(outputs[0]).dtype != PLAIT_F64;
          const ValueId loss = weighted_loss(g, def, outputs, weights);
          in.resize(n_floats);
          const auto d = program::differentiate(g, loss, in);
          std::vector<ValueId> out{loss};
          for (size_t i = 0; i < d.size(); ++i)
            out.push_back(d[i] ? d[i] : program::filled(g, g.shape(in[i]), 0));
          return out;
        })) {
    for (size_t i = 0; i < inputs.size(); ++i) program.set(i, inputs[i]);
    exact = program.run();
  }

  static std::vector<plait_shape> shapes_of(const OpExample& e) {
    std::vector<plait_shape> shapes;
    for (const auto& dims : e.inputs) shapes.push_back(make_shape(PLAIT_F64, dims));
    for (const auto& dims : e.tables) shapes.push_back(make_shape(PLAIT_F32, dims));
    for (size_t i = 0; i < e.indices.size(); ++i)
      shapes.push_back(make_shape(PLAIT_I32, e.index_dims));
    if (e.counter) shapes.push_back(make_shape(PLAIT_I64, {2}));
    shapes.push_back(make_shape(PLAIT_F64, {kWeights}));
    return shapes;
  }
  static test::Runner::Values values_of(const OpExample& e) {
    test::Runner::Values all;
    for (const auto* floats : {&e.inputs, &e.tables})
      for (const auto& dims : *floats)
        all.push_back(numbers(static_cast<size_t>(program::elements(make_shape(PLAIT_F64, dims))),
                              e.low, e.high, static_cast<unsigned>(all.size())));
    all.insert(all.end(), e.indices.begin(), e.indices.end());
    if (e.counter) all.push_back({3, 1});
    std::vector<double>& weights = all.emplace_back(kWeights);
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = 0.5 + 0.25 * static_cast<double>(i % 7);
    return all;
  }

  // The loss where element e of input i is moved by h.
  double loss_at(size_t i, size_t e, double h) {
    std::vector<double> moved = inputs[i];
    moved[e] += h;
    program.set(i, moved);
    const double loss = program.run()[0][0];
    program.set(i, inputs[i]);
    return loss;
  }

  size_t n_floats;
  test::Runner::Values inputs;
  bool narrow = false;  // results in f32 limit what a difference can show
  test::Runnable program;
  test::Runner::Values exact;  // loss, gradients
};

void check_example(test::Runner& runner, const OpDef& def, const OpExample& example) {
  Probe probe(runner, def, example);
  const double h = probe.narrow ? 1e-2 : 1e-5, tolerance = probe.narrow ? 2e-4 : 1e-7;
  for (size_t i = 0; i < probe.n_floats; ++i) {
    const bool flat = std::count(example.flat.begin(), example.flat.end(), i) > 0;
    const size_t n = probe.inputs[i].size(), step = n > 12 ? 3 : 1;
    for (size_t e = 0; e < n; e += step) {
      const double numeric =
          flat ? 0 : (probe.loss_at(i, e, h) - probe.loss_at(i, e, -h)) / (2 * h);
      CAPTURE(i);
      CAPTURE(e);
      CHECK(probe.exact[i + 1][e] == doctest::Approx(numeric).epsilon(tolerance).scale(1));
    }
  }
}

}  // namespace

TEST_CASE("the gradients of every definition agree with central differences") {
  test::Runner runner("reference");
  for (const OpDef* def : program::core_ops()) {
    CAPTURE(def->name);
    if (!def->vjp || def->audience != program::Audience::kEveryone) continue;
    REQUIRE_MESSAGE((def->examples != nullptr), "a definition with a gradient needs examples");
    for (const OpExample& example : def->examples()) check_example(runner, *def, example);
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

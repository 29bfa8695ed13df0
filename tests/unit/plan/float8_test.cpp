// precision.products = "fp8" from the experiment to the plan: gradients beside those of f32,
// weights that a step quantizes once, layouts whose ranks make the same calls, what is refused.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/base/error.hpp"
#include "engine/plan/job_calls.hpp"
#include "engine/plan/verify_job.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;
using namespace plait::plan;

const char* const kExperiment = R"([run]
steps = 4
device = "reference"
[batch]
global = 8
[data.train]
type = "synthetic"
samples = 16
shape = [32]
classes = 16
[model]
layers = [
  {type = "linear", out = 64, parallel = "column"},
  {type = "tanh"},
  {type = "linear", out = 16, parallel = "row"},
]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
learning_rate = 0.1
)";

std::shared_ptr<const Plan> plan_of(const std::vector<std::string>& keys, int32_t rank = 0) {
  static const auto kPlugins =
      test::load_plugins({"device-reference", "layer-dense", "layer-activation", "layer-loss",
                          "data-synthetic", "optimizer-sgd"});
  return test::plan_of(kExperiment, keys, test::context_of(kPlugins, rank));
}

std::vector<std::string> fp8(std::vector<std::string> keys = {}) {
  keys.emplace_back("precision.products=fp8");
  return keys;
}

size_t count(const Plan& plan, const std::string& program, const std::string& op) {
  size_t n = 0;
  for (const program::Op& one : plan.program(program)->graph->ops()) n += one.name == op;
  return n;
}

// The gradients of the step's first micro-batch; its parameters and samples do not depend on keys.
std::vector<double> gradients_of(const std::vector<std::string>& keys) {
  const auto plan = plan_of(keys);
  runtime::Executor executor(plan);
  const auto put = [&](BufferRef at, size_t n, const auto& value) {
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = value(static_cast<double>(i));
    executor.write(at, values.data(), n * sizeof(float));
    executor.sync();
  };
  for (const ParameterGroup& g : plan->groups)
    put(g.parameters.at(0), static_cast<size_t>(g.parameters.elements),
        [](double i) { return static_cast<float>(0.2 * std::sin(1 + 7.3 * i)); });
  const Feed& feed = plan->entry_point(kTrainStep).feed;
  for (const Field& f : feed.fields) {
    const auto n = static_cast<size_t>(program::elements(f.shape));
    if (f.shape.dtype == PLAIT_F32) {
      put(f.buffer, n, [](double i) { return static_cast<float>(std::cos(0.7 * i)); });
      continue;
    }
    std::vector<int32_t> labels(n);
    for (size_t i = 0; i < n; ++i) labels[i] = static_cast<int32_t>(i * 5 % 16);
    REQUIRE(f.shape.dtype == PLAIT_I32);
    executor.write(f.buffer, labels.data(), n * sizeof(int32_t));
    executor.sync();
  }
  put(feed.weight, static_cast<size_t>(feed.batch), [](double) { return 1.0f; });
  for (const Launch& l : plan->entry_point(kTrainStep).launches) {
    executor.launch(l.program, l.slot);
    if (plan->programs[static_cast<size_t>(l.program)].name == "forward_backward") break;
  }
  std::vector<double> all;
  for (const ParameterGroup& g : plan->groups) {
    std::vector<float> values(static_cast<size_t>(g.gradients.elements));
    executor.read(g.gradients.at(0), values.data(), values.size() * sizeof(float));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// |a - b| / |b|.
double apart(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace

// One rounding to e4m3 is off by 2^-4 at most and by 2.6 % on average, to e5m2 by twice that.
TEST_CASE("float8: gradients are those of f32 but for the roundings of their operands") {
  const std::vector<double> f32 = gradients_of({});
  for (const std::string scaling : {"tensor", "row"}) {
    const std::string key = "precision.fp8.scaling=" + scaling;
    const double all = apart(gradients_of(fp8({key})), f32);
    CAPTURE(scaling);
    CAPTURE(all);
    CHECK(all > 0.01);
    CHECK(all < 0.1);
    const double forward = apart(
        gradients_of(fp8({key, "precision.fp8.grad_input=off", "precision.fp8.grad_weight=off"})),
        f32);
    CHECK(forward > 0.001);
    CHECK(forward < all);
    const std::string bf16 = "precision.compute=bf16";
    CHECK(apart(gradients_of(fp8({key, bf16})), gradients_of({bf16})) < 0.1);
  }
  CHECK(gradients_of(fp8({"precision.fp8.forward=off", "precision.fp8.grad_input=off",
                          "precision.fp8.grad_weight=off"})) == f32);
}

TEST_CASE("float8: a step of several micro-batches quantizes weights once, with the same result") {
  for (const char* compute : {"f32", "bf16"}) {
    const std::string type = std::string("precision.compute=") + compute;
    const auto one = plan_of(fp8({type})), four = plan_of(fp8({type, "batch.accumulation=2"}));
    CHECK(one->program("quantize_weights") == nullptr);
    REQUIRE(four->program("quantize_weights") != nullptr);
    // Forward of both layers, and the gradient of the second one's input.
    CHECK(count(*four, "quantize_weights", "quantize_f8") == 3);
    CHECK(count(*one, "forward_backward", "quantize_f8") ==
          count(*four, "forward_backward", "quantize_f8") + 3);
    const auto kept = gradients_of(fp8({type, "batch.accumulation=2", "batch.global=16"}));
    CHECK(apart(kept, gradients_of(fp8({type}))) < 1e-6);
  }
}

TEST_CASE("float8: ranks of every layout make the same calls") {
  for (const std::string scaling : {"tensor", "row"})
    for (const std::vector<std::string>& layout :
         {std::vector<std::string>{"topology.tensor=2"},
          {"topology.tensor=2", "topology.sequence=true"},
          {"topology.data=2", "topology.zero=1"},
          {"topology.data=2", "topology.zero=3"},
          {"topology.data=2", "topology.zero=3", "batch.accumulation=2"},
          {"topology.tensor=2", "batch.accumulation=2"},
          {"topology.pipeline=2", "batch.accumulation=2"}}) {
      CAPTURE(scaling);
      CAPTURE(layout);
      std::vector<std::string> keys = fp8(layout);
      keys.push_back("precision.fp8.scaling=" + scaling);
      const auto a = plan_of(keys, 0), b = plan_of(keys, 1);
      const RankCalls of_a = calls_of(*a), of_b = calls_of(*b);
      const std::string fault = verify_job(a->grid, {&of_a, &of_b}).fault;
      CHECK_MESSAGE(fault.empty(), fault);
    }
}

TEST_CASE("float8: what is refused") {
  const auto refused = [](const std::vector<std::string>& keys, const char* why) {
    CHECK_THROWS_WITH_AS(plan_of(fp8(keys)), doctest::Contains(why), Error);
  };
  refused({"precision.fp8.except=['*.nothing']"}, "pattern '*.nothing' matches no parameter");
  refused({"precision.fp8.except=['*']"}, "so all products would stay as they are");
  refused({"precision.fp8.forward=e5m2 x e5m2"}, "precision.fp8.forward");
  refused({"precision.compute=f64"}, "8-bit floats leave nothing of f64");
}

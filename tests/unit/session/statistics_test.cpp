// [statistics]: figures against the tensors themselves, and the same on every layout.
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;
using Json = nlohmann::json;

std::vector<std::string> keys(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"run.steps=4", "model.layers[2].p=0",
                                  "optimizer={type=\"sgd\", learning_rate=0.5}",
                                  "statistics.every=2", "statistics.figures=[\"all\"]"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

using Figures = std::map<std::string, double>;
struct Observed {
  std::map<std::string, Figures> last;  // of the last step, by tensor
  std::vector<int64_t> steps;           // of lines
  std::map<std::string, std::vector<float>> weights;
};

double number(const Json& v) { return v.is_number() ? v.get<double>() : NAN; }

Observed run(const std::vector<std::string>& experiment, int ranks = 1) {
  const Folder folder;
  const auto outcomes = run_all(experiment, ranks, folder / "run",
                                [](int) -> FileSystem& { return FileSystem::posix(); });
  for (size_t rank = outcomes.size(); rank-- > 0;)
    REQUIRE_MESSAGE(outcomes[rank].code == PLAIT_OK, outcomes[rank].error);
  Observed o;
  o.weights = outcomes[0].weights;
  std::ifstream file(folder / "run/statistics.ndjson");
  for (std::string text; std::getline(file, text);) {
    const Json line = Json::parse(text);
    if (line["event"] != "statistics") continue;
    o.steps.push_back(line["step"]);
    Figures& figures = o.last[line["tensor"]];
    for (const auto& [key, value] : line.items())
      if (key != "schema" && key != "step" && key != "time" && key != "run" && key != "event" &&
          key != "tensor")
        figures[key] = number(value);
  }
  return o;
}

void check_equal(const Observed& a, const Observed& b) {
  REQUIRE(a.last.size() == b.last.size());
  for (const auto& [tensor, figures] : a.last) {
    REQUIRE(b.last.contains(tensor));
    for (const auto& [name, value] : figures) {
      CAPTURE(tensor);
      CAPTURE(name);
      const double other = b.last.at(tensor).at(name);
      // Rounding may move an element over the end of a bin.
      const double close = name[0] == 'q' || name.find("_q") != std::string::npos ||
                                   name.find("median") != std::string::npos ||
                                   name.find("sparsity") != std::string::npos
                               ? 0.07
                               : 1e-4;
      if (std::isnan(value) && std::isnan(other)) continue;
      CHECK(std::fabs(value - other) <= close * std::max(std::fabs(value), 1e-3));
    }
  }
}

}  // namespace

TEST_CASE("statistics of parameters and gradients are those of the tensors") {
  const Observed before = run(keys({"run.steps=3", "statistics.every=1"}));
  const Observed after = run(keys());
  CHECK(after.steps.size() == 2 * 8);
  CHECK(after.steps.back() == 4);
  for (const auto& [name, values] : after.weights) {
    CAPTURE(name);
    double sum = 0, squares = 0, most = 0, step = 0, step_squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double v = values[i], d = (before.weights.at(name)[i] - v) / 0.5;
      sum += v;
      squares += v * v;
      most = std::max(most, std::fabs(v));
      step += d;
      step_squares += d * d;
    }
    const auto n = static_cast<double>(values.size());
    const Figures &p = after.last.at("parameters/" + name), &g = after.last.at("gradients/" + name);
    CHECK(p.at("mean") == doctest::Approx(sum / n));
    CHECK(p.at("l2") == doctest::Approx(std::sqrt(squares)));
    CHECK(p.at("abs_max") == doctest::Approx(most));
    CHECK(std::fabs(g.at("mean") - step / n) < 1e-6);
    CHECK(g.at("l2") == doctest::Approx(std::sqrt(step_squares)).epsilon(1e-4));
    CHECK(g.at("nan") == 0);
  }
}

TEST_CASE("statistics are the same on every layout") {
  const Observed one = run(keys());
  for (const auto& [ranks, more] : std::vector<std::pair<int, std::vector<std::string>>>{
           {1, {"batch.micro=2"}},
           {2, {"topology.data=2"}},
           {2, {"topology.data=2", "topology.zero=1", "batch.micro=2"}},
           {2, {"topology.data=2", "topology.zero=2"}},
           {2, {"topology.data=2", "topology.zero=3"}},
           {2, {"topology.tensor=2"}},
           {2, {"topology.pipeline=2", "batch.micro=2"}},
           {4, {"topology.tensor=2", "topology.data=2", "topology.zero=1"}},
           {2, {"topology.tensor=2", "topology.sequence=true"}},
           {2,
            {"topology.pipeline=2", "batch.micro=2", "topology.schedule=interleaved",
             "topology.virtual_stages=2"}}}) {
    INFO(more.back());
    INFO(more.front());
    check_equal(run(keys(more), ranks), one);
  }
  // Shards with padding.
  const std::vector<std::string> uneven = {
      "data.train={type=\"synthetic\", samples=60, shape=[6], classes=5}", "model.layers[3].out=5",
      "model.layers[3].parallel=column", "model.layers[0].parallel=none"};
  std::vector<std::string> two = uneven;
  two.emplace_back("topology.tensor=2");
  const Observed whole = run(keys(uneven)), parts = run(keys(two), 2);
  for (const char* name : {"mean", "std", "l2", "zero", "median", "abs_max"})
    for (const auto& [tensor, figures] : whole.last) {
      CAPTURE(tensor);
      CAPTURE(name);
      CHECK(std::fabs(figures.at(name) - parts.last.at(tensor).at(name)) < 2e-2);
    }
  check_equal(run(keys({"precision.compute=\"f16\""})),
              run(keys({"precision.compute=\"f16\"", "precision.scale.initial=1024"})));
}

TEST_CASE("statistics of layers: one more pass over the first micro-batch") {
  // Without a change of the weights the pass repeats that of the step.
  const std::vector<std::string> layers = {
      "optimizer.learning_rate=1e-30",
      "statistics.of=[\"gradients\", \"activations\", \"activation_gradients\"]",
      "statistics.match=[\"model.linear2*\", \"model.relu1\", \"model.dropout1\"]"};
  const Observed one = run(keys(layers));
  CHECK(one.last.size() == 2 + 3 + 3);
  const Figures& relu = one.last.at("activations/model.relu1");
  CHECK(relu.at("min") == 0);
  CHECK(relu.at("mean") == doctest::Approx(relu.at("abs_mean")));
  CHECK(relu.at("zero") > 0.1);
  // The gradient of a bias is the sum of those of the outputs: 8 samples of 4 numbers.
  const double of_outputs = one.last.at("activation_gradients/model.linear2").at("mean") * 8 * 4,
               of_bias = one.last.at("gradients/model.linear2.bias").at("mean") * 4;
  CHECK(std::fabs(of_outputs - of_bias) < 1e-6);
  CHECK(one.last.at("activation_gradients/model.linear2").at("l2") > 0.01);
  for (const auto& [ranks, more] : std::vector<std::pair<int, std::vector<std::string>>>{
           {2, {"topology.data=2"}},
           {2, {"topology.data=2", "topology.zero=3"}},
           {2, {"topology.tensor=2"}},
           {4, {"topology.tensor=2", "topology.data=2"}}}) {
    INFO(more.back());
    INFO(more.front());
    std::vector<std::string> all = layers;
    all.insert(all.end(), more.begin(), more.end());
    if (more[0].find("precision") == std::string::npos) {
      check_equal(run(keys(all), ranks), one);
      continue;
    }
    const Observed low = run(keys(all), ranks);
    for (const char* tensor : {"activations/model.linear2", "activation_gradients/model.linear2",
                               "activation_gradients/model.relu1", "gradients/model.linear2.bias"})
      CHECK(low.last.at(tensor).at("l2") ==
            doctest::Approx(one.last.at(tensor).at("l2")).epsilon(0.05));
  }
}

TEST_CASE("gradients that nothing needs are left out") {
  const Observed o = run(keys({"statistics.of=[\"activation_gradients\"]",
                               "optimizer.groups=[{match=[\"model.linear1.*\"], frozen=true}]"}));
  CHECK_FALSE(o.last.contains("activation_gradients/model.linear1"));
  CHECK_FALSE(o.last.contains("activation_gradients/model.relu1"));
  CHECK(o.last.at("activation_gradients/model.linear2").at("l2") > 0);
}

TEST_CASE("statistics change nothing of a run") {
  const std::vector<std::string> of = {
      "statistics.of=[\"parameters\", \"gradients\", \"activations\", \"activation_gradients\"]",
      "model.layers[2].p=0.3", "statistics.every=1"};
  std::vector<std::string> without = of;
  without.back() = "statistics.every=0";
  CHECK(run(keys(of)).weights == run(keys(without)).weights);
}

TEST_CASE("wrong names of statistics are problems of the file") {
  const auto problem = [](const std::string& key) {
    Log log{[](uint32_t, std::string_view) {}};
    try {
      make_plan(keys({key}), FileSystem::posix(), 0, 1, log);
    } catch (const Error& e) {
      return e.full_text();
    }
    return std::string();
  };
  const auto says = [&](const std::string& key, const char* text) {
    CAPTURE(key);
    const std::string found = problem(key);
    CAPTURE(found);
    CHECK(found.find(text) != std::string::npos);
  };
  says("statistics.figures=[\"meen\"]", "did you mean 'mean'");
  says("statistics.of=[\"gradient\"]", "did you mean 'gradients'");
  says("statistics.match=[\"model.linear9.*\"]", "matches no parameter");
  CHECK(problem("statistics.match=[\"*.bias\"]").empty());
}

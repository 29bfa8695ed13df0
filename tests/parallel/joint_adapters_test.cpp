// Adapters that samples choose: each has losses, metrics, gradients' norm, rate and number of
// updates as if it trained alone, whatever the mix of a batch, on every kind of grid.
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr int kFeatures = 8, kRows = 30, kSteps = 9, kSaved = 5;
const std::array<std::string, 3> kNames{"poems", "code", "chat"};

// Rows of one part of the blend. counted: their weights are above 0.
std::string part(const Folder& folder, int number, bool counted) {
  const std::string path =
      folder / ("part" + std::to_string(number) + (counted ? "" : "-without") + ".csv");
  std::ofstream csv(path);
  for (int f = 0; f < kFeatures; ++f) csv << "x" << f << ",";
  csv << "label,importance\n";
  for (int s = 0; s < kRows; ++s) {
    for (int f = 0; f < kFeatures; ++f)
      csv << ((s * s * 7 + f * 13 + number * 31 + s * f) % 41 - 20) * 0.05 << ",";
    csv << (s + number) % 4 << "," << (counted ? 0.5 + s % 3 * 0.25 : 0.0) << "\n";
  }
  return "{type = \"csv\", path = \"" + path +
         "\", target = [\"label\"], target_type = \"i32\", weight = \"importance\"}";
}

// only: the part whose samples count; -1: all of them. The third one has few: some steps have none
// of its samples.
std::vector<std::string> data(const Folder& folder, int only) {
  std::string parts;
  for (int k = 0; k < 3; ++k) parts += part(folder, k, only < 0 || only == k) + ", ";
  const std::string blend = "={type = \"blend\", parts = [" + parts +
                            "], weights = [0.6, 0.35, 0.05], samples = 160, part_field = "
                            "\"adapter\"}";
  return {"data.train" + blend, "data.eval" + blend};
}

std::string model(const std::vector<std::string>& adapters, const std::string& losses) {
  std::string toml = R"([run]
seed = 3
threads = 1
[topology]
timeout = 60.0
[batch]
global = 16
[guard]
nonfinite_limit = 100
[model]
layers = [
  {type = "linear", name = "first", out = 16, parallel = "column"},
  {type = "tanh"},
  {type = "linear", name = "second", out = 16, parallel = "row"},
  {type = "tanh"},
  {type = "linear", name = "third", out = 16},
  {type = "tanh"},
  {type = "linear", name = "last", out = 4},
]
[[metrics]]
type = "accuracy"
[optimizer]
type = "adamw"
learning_rate = 0.02
weight_decay = 0.1
clip_grad_norm = 0.2
schedule = {type = "linear", total_steps = 40}
)" + losses;
  const auto listed = [&](const std::string& name) {
    return std::count(adapters.begin(), adapters.end(), name) > 0;
  };
  if (listed("poems"))
    toml +=
        "[[optimizer.groups]]\nmatch = [\"*.poems.*\"]\nlearning_rate = 0.05\n"
        "schedule = {type = \"cosine\", total_steps = 20, min_ratio = 0.1}\n";
  if (listed("chat")) toml += "[[optimizer.groups]]\nmatch = [\"*.chat.*\"]\nweight_decay = 0.0\n";
  for (const std::string& name : adapters)
    toml += "[[model.adapters]]\ntype = \"lora\"\nname = \"" + name +
            "\"\nmatch = [\"model.*.weight\"]\nrank = 3\nalpha = 6\n";
  return toml;
}

constexpr char kOneLoss[] = "[loss]\ntype = \"cross_entropy\"\n";
// Of which the second one does not count labels.
constexpr char kTwoLosses[] =
    "[[loss]]\ntype = \"cross_entropy\"\nname = \"labels\"\n"
    "[[loss]]\ntype = \"mse\"\nname = \"size\"\nfrom = [\"second\", \"first\"]\nweight = "
    "0.5\n";

using Figures = std::map<std::string, double>;
struct Trained {
  std::vector<Figures> steps;  // loss, grad_norm and metrics
  Figures evaluation;
  Weights weights;
};

// checkpoint: where the steps from kSaved on begin again; "": they do not.
Trained train(const JobSpec& job_spec, uint32_t ranks, const std::string& checkpoint = "") {
  Trained t;
  const auto got = run(job_spec, ranks, [&](uint32_t rank, plait::Session& session, Outcome& o) {
    for (int i = 0; i < kSteps; ++i) {
      if (i == kSaved && !checkpoint.empty()) {
        session.save(checkpoint);
        session.step();
        session.step();
        session.load(checkpoint);
      }
      const plait_step_result r = session.step();
      Figures f{{"loss", r.loss}, {"grad_norm", r.grad_norm}, {"skipped", r.skipped}};
      for (uint32_t m = 0; m < r.n_metrics; ++m) f[r.metrics[m].name] = r.metrics[m].value;
      if (rank == 0) t.steps.push_back(f);
    }
    const auto e = nlohmann::json::parse(session.evaluate("eval"));
    o.weights = weights_of(session);
    if (rank != 0) return;
    t.evaluation = e.at("metrics").get<Figures>();
    t.evaluation["loss"] = e.at("loss");
    t.weights = o.weights;
  });
  for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  for (const Outcome& o : got) CHECK(o.weights == got[0].weights);
  for (const Outcome& o : got) CHECK(o.arena == o.planned);
  return t;
}

JobSpec job(const Folder& folder, const std::vector<std::string>& adapters, int only,
            const std::string& compute, const std::string& losses) {
  JobSpec spec{model(adapters, losses), data(folder, only), {}, {}};
  spec.overrides.insert(spec.overrides.end(), {"batch.eval=16", "precision.compute=" + compute});
  if (only < 0) spec.overrides.emplace_back("model.adapter_field=adapter");
  return spec;
}

void check_near(double got, double expected, double tolerance) {
  CHECK(std::abs(got - expected) <= tolerance * std::max(1.0, std::abs(expected)));
}

// What an adapter has in the joint run is what it has alone. figures: also of single losses.
void check_adapter(const Trained& joint, const Trained& one, const std::string& name,
                   const std::vector<std::string>& figures, double tolerance) {
  CAPTURE(name);
  size_t absent = 0;
  for (size_t i = 0; i < joint.steps.size(); ++i) {
    CAPTURE(i);
    const Figures &all = joint.steps[i], &own = one.steps[i];
    CHECK(all.at("skipped") == 0);
    if (own.at("skipped") != 0) {  // all weights are 0
      ++absent;
      for (const std::string& figure : figures) CHECK(std::isnan(all.at(figure + "." + name)));
      CHECK(std::isnan(all.at("grad_norm." + name)));
      continue;
    }
    for (const std::string& figure : figures)
      check_near(all.at(figure + "." + name), own.at(figure), tolerance);
    check_near(all.at("grad_norm." + name), own.at("grad_norm"), tolerance);
  }
  CHECK((absent > 0) == (name == "chat"));
  for (const std::string& figure : figures)
    check_near(joint.evaluation.at(figure + "." + name), one.evaluation.at(figure), tolerance);
  size_t n = 0;
  for (const auto& [parameter, values] : one.weights) {
    CAPTURE(parameter);
    const std::vector<double>& got = joint.weights.at(parameter);
    if (parameter.find("." + name + ".") == std::string::npos) {
      CHECK(got == values);  // of the model, which stays
      continue;
    }
    ++n;
    double largest = 0, apart = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(values[i]));
      apart = std::max(apart, std::abs(values[i] - got[i]));
    }
    CHECK(apart <= tolerance * largest);
  }
  CHECK(n == 8);
}

void check_joint(const std::string& compute, double tolerance, const std::vector<Layout>& layouts,
                 const std::string& losses = kOneLoss) {
  const Folder folder;
  std::vector<std::string> figures{"accuracy", "loss"};
  if (losses != kOneLoss) figures = {"accuracy", "loss.labels", "loss.size"};
  std::vector<Trained> ones;
  for (int k = 0; k < 3; ++k)
    ones.push_back(train(job(folder, {kNames[static_cast<size_t>(k)]}, k, compute, losses), 1));
  const JobSpec joint = job(folder, {kNames.begin(), kNames.end()}, -1, compute, losses);
  for (const Layout& layout : layouts) {
    CAPTURE(layout.text());
    const Trained all = train(on(joint, layout), layout.ranks());
    for (size_t k = 0; k < 3; ++k) check_adapter(all, ones[k], kNames[k], figures, tolerance);
    double squares = 0;
    for (const std::string& name : kNames)
      if (const double norm = all.steps[0].at("grad_norm." + name); !std::isnan(norm))
        squares += norm * norm;
    check_near(all.steps[0].at("grad_norm"), std::sqrt(squares), tolerance);
  }
}

}  // namespace

TEST_SUITE("adapters_by_sample") {
  TEST_CASE("losses, norms, rates and updates of each adapter are those that it has alone") {
    check_joint("f64", 1e-12,
                {{},
                 {1, 1, 1, 0, "1f1b", 1, 16},
                 {1, 2, 1, 0, "1f1b", 1, 4},
                 {1, 2, 1, 1, "1f1b", 1, 8},
                 {1, 2, 1, 3, "1f1b", 1, 4},
                 {1, 1, 2, 0, "1f1b", 1, 16},
                 {2, 1, 1, 0, "1f1b", 1, 4},
                 {1, 2, 2, 2, "1f1b", 1, 4}});
    check_joint("f32", 1e-5, {{}, {1, 2, 1, 0, "1f1b", 1, 4}});
  }
  TEST_CASE("so they are with several losses, which count different weights") {
    check_joint("f64", 1e-12, {{}, {1, 2, 1, 0, "1f1b", 1, 4}, {2, 1, 1, 0, "1f1b", 1, 4}},
                kTwoLosses);
  }
  TEST_CASE("a checkpoint keeps the number of updates of each adapter") {
    const Folder folder;
    const JobSpec joint = job(folder, {kNames.begin(), kNames.end()}, -1, "f64", kOneLoss);
    const Trained whole = train(joint, 1);
    for (const Layout& layout : {Layout{}, Layout{1, 2, 1, 2, "1f1b", 1, 4}}) {
      CAPTURE(layout.text());
      const Trained parts = train(on(joint, layout), layout.ranks(),
                                  folder / ("saved" + std::to_string(layout.ranks())));
      for (const auto& [name, values] : whole.weights) {
        CAPTURE(name);
        for (size_t i = 0; i < values.size(); ++i)
          check_near(parts.weights.at(name)[i], values[i], 1e-12);
      }
    }
  }
  TEST_CASE("the loss of a step is the mean over all samples, and so is that of an evaluation") {
    const Folder folder;
    const std::vector<std::string> all{kNames.begin(), kNames.end()};
    // At their initial values adapters change nothing, so one that takes all samples begins alike.
    JobSpec plain = job(folder, {"code"}, -1, "f64", kOneLoss);
    plain.overrides.back() = "optimizer.clip_grad_norm=0";
    const Trained joint = train(job(folder, all, -1, "f64", kOneLoss), 1), one = train(plain, 1);
    check_near(joint.steps[0].at("loss"), one.steps[0].at("loss"), 1e-12);
    check_near(joint.steps[0].at("accuracy"), one.steps[0].at("accuracy"), 1e-12);
    // Of several losses each has figures of its own; their sum is the loss.
    const Trained two = train(job(folder, all, -1, "f64", kTwoLosses), 1);
    for (const Figures& f : two.steps)
      check_near(f.at("loss"), f.at("loss.labels") + 0.5 * f.at("loss.size"), 1e-12);
    const Figures& e = two.evaluation;
    check_near(e.at("loss"), e.at("loss.labels") + 0.5 * e.at("loss.size"), 1e-12);
    for (const std::string& name : kNames) {
      CHECK(e.at("loss.labels." + name) > 0);
      CHECK(e.at("loss.size." + name) > 0);
    }
  }
}

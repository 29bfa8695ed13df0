#include "tests/parallel/ranks.hpp"

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace parallel {

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "plait-parallel-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no folder for the test");
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

namespace {

void run_rank(const Team& team, const std::string& meeting, uint32_t rank, uint32_t ranks,
              const Body& body, Outcome& outcome) {
  try {
    plait::EngineSettings engine_settings;
    engine_settings.keep_plugins_loaded = true;
    engine_settings.plugin_paths = team.plugins;
    plait::Engine engine(engine_settings);
    std::vector<std::string> overrides = team.overrides;
    if (const auto own = team.of_rank.find(rank); own != team.of_rank.end())
      overrides.insert(overrides.end(), own->second.begin(), own->second.end());
    const auto experiment = plait::Experiment::parse(engine, team.toml, "test.toml", overrides);
    plait::JobSettings job;
    job.rank = rank;
    job.size = ranks;
    job.meeting = ranks > 1 ? "file:" + meeting : "";
    if (team.job) team.job(rank, job);
    const plait::Plan plan(experiment, plait::Job(job));
    plait::SessionSettings settings;
    settings.no_files = true;
    if (team.settings) settings = team.settings(rank);
    plait::Session session(plan, settings);
    body(rank, session, outcome);
  } catch (const plait::HostError& e) {
    outcome.code = e.code();
    outcome.error = e.what();
  }
}

}  // namespace

std::vector<Outcome> run(const Team& team, uint32_t ranks, const Body& body) {
  const Folder folder;
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < ranks; ++r)
    threads.emplace_back(
        [&, r] { run_rank(team, folder / "meeting", r, ranks, body, outcomes[r]); });
  for (std::thread& t : threads) t.join();
  return outcomes;
}

Body train(int n) {
  return [n](uint32_t, plait::Session& session, Outcome& outcome) {
    for (int i = 0; i < n; ++i) {
      const plait_step_result r = session.step();
      outcome.losses.push_back(r.loss);
      outcome.norms.push_back(r.grad_norm);
      outcome.samples = r.samples;
    }
    const auto facts = nlohmann::json::parse(session.describe());
    for (const auto& p : facts["parameters"]) {
      size_t elements = 1;
      for (const auto& d : p["shape"]) elements *= d.get<size_t>();
      std::vector<float>& values = outcome.weights[p["name"]];
      values.resize(elements);
      session.read(p["name"].get<std::string>(), std::span<float>(values));
    }
    auto evaluation = nlohmann::json::parse(session.evaluate("eval"));
    evaluation.erase("seconds");
    outcome.evaluation = evaluation.dump();
  };
}

std::string model(const Folder& folder) {
  constexpr int kSamples = 46, kFeatures = 16, kClasses = 4;
  std::ofstream csv(folder / "data.csv");
  for (int f = 0; f < kFeatures; ++f) csv << "x" << f << ",";
  csv << "label,importance\n";
  uint32_t noise = 12345;
  const auto next = [&noise] { return (noise = noise * 1664525u + 1013904223u) >> 8; };
  for (int s = 0; s < kSamples; ++s) {
    const uint32_t label = next() % kClasses;
    for (int f = 0; f < kFeatures; ++f)
      csv << (static_cast<int>(next() % 200) - 100) * 0.01 +
                 (f % kClasses == static_cast<int>(label))
          << ",";
    csv << label << "," << 0.25 + (next() % 8) * 0.25 << "\n";
  }
  const std::string data =
      "type = \"csv\"\npath = \"" + (folder / "data.csv") +
      "\"\ntarget = [\"label\"]\ntarget_type = \"i32\"\nweight = \"importance\"\n";
  return R"([run]
seed = 7
threads = 1
[topology]
timeout = 60.0
[batch]
global = 16
[data.train]
)" + data +
         "shuffle = true\n[data.eval]\n" + data + R"(
[[model.layers]]
type = "linear"
name = "first"
out = 16
parallel = "column"
[[model.layers]]
type = "relu"
[[model.layers]]
type = "dropout"
p = 0.2
[[model.layers]]
type = "layer_norm"
[[model.layers]]
type = "linear"
name = "again"
out = 16
parallel = "column"
tie = { weight = "model.first.weight" }
[[model.layers]]
type = "gelu"
[[model.layers]]
type = "linear"
name = "head"
out = 4
parallel = "row"
[loss]
type = "cross_entropy"
[[metrics]]
type = "accuracy"
[optimizer]
type = "adamw"
rate = 0.003
clip = 0.5
[[optimizer.groups]]
match = ["*.bias"]
decay = 0.0
rate = 0.006
)";
}

namespace {

// The head of an IDX file of bytes.
void header(std::ofstream& to, std::initializer_list<int> dims) {
  to.put(0).put(0).put(8).put(static_cast<char>(dims.size()));
  for (const int d : dims) to.put(0).put(0).put(0).put(static_cast<char>(d));
}

}  // namespace

std::string vocabulary_model(const Folder& folder, int vocabulary) {
  constexpr int kSamples = 40, kIds = 6;
  std::ofstream ids(folder / "ids.npy", std::ios::binary),
      next_ids(folder / "next.npy", std::ios::binary);
  for (std::ofstream* to : {&ids, &next_ids}) {
    std::string head = "{'descr': '|u1', 'fortran_order': False, 'shape': (" +
                       std::to_string(kSamples) + ", " + std::to_string(kIds) + "), }";
    head.resize(117, ' ');  // with what is before it a multiple of 64
    *to << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(head.size() + 1) << '\0' << head
        << "\n";
  }
  uint32_t noise = 5;
  for (int i = 0; i < kSamples * kIds; ++i) {
    noise = noise * 1664525u + 1013904223u;
    const uint32_t id = (noise >> 16) % static_cast<uint32_t>(vocabulary);
    ids.put(static_cast<char>(id));
    next_ids.put(static_cast<char>((id * 3 + 1) % static_cast<uint32_t>(vocabulary)));
  }
  const std::string data = "type = \"npy\"\ninput = \"" + (folder / "ids.npy") + "\"\ntarget = \"" +
                           (folder / "next.npy") + "\"\n";
  const std::string v = std::to_string(vocabulary);
  return "[run]\nseed = 3\nthreads = 1\n[batch]\nglobal = 16\n[data.train]\n" + data +
         "shuffle = true\n[data.eval]\n" + data +
         "[[model.layers]]\ntype = \"embedding\"\nname = \"ids\"\nvocabulary = " + v + R"(
width = 8
[[model.layers]]
type = "linear"
out = 8
parallel = "row"
[[model.layers]]
type = "tanh"
[[model.layers]]
type = "linear"
name = "head"
parallel = "column"
tie = { weight = "model.ids.weight" }
out = )" +
         v + R"(
[loss]
type = "cross_entropy"
smoothing = 0.1
[[metrics]]
type = "accuracy"
[optimizer]
type = "adamw"
rate = 0.01
clip = 1.0
)";
}

std::string mixed_model(const Folder& folder) {
  constexpr int kSamples = 40, kIds = 6;
  std::ofstream ids(folder / "ids", std::ios::binary), labels(folder / "labels", std::ios::binary);
  header(ids, {kSamples, kIds});
  header(labels, {kSamples});
  uint32_t noise = 99;
  const auto next = [&noise] { return (noise = noise * 1664525u + 1013904223u) >> 16; };
  for (int i = 0; i < kSamples; ++i) {
    const uint32_t label = next() % 4;
    labels.put(static_cast<char>(label));
    for (int k = 0; k < kIds; ++k)
      ids.put(static_cast<char>((next() % 3 == 0 ? next() : label * 4 + next() % 4) % 16));
  }
  const std::string data = "type = \"idx\"\nimages = \"" + (folder / "ids") + "\"\nlabels = \"" +
                           (folder / "labels") + "\"\n";
  return "[run]\nseed = 3\nthreads = 1\n[batch]\nglobal = 16\n[data.train]\n" + data +
         "shuffle = true\n[data.eval]\n" + data + R"(
[[model.layers]]
type = "embedding"
vocabulary = 16
width = 8
[[model.layers]]
type = "flatten"
as = ["flat"]
[[model.layers]]
type = "linear"
out = 32
parallel = "column"
[[model.layers]]
type = "silu"
as = ["gate"]
[[model.layers]]
type = "linear"
from = ["flat"]
out = 32
parallel = "column"
as = ["up"]
[[model.layers]]
type = "mul"
from = ["gate", "up"]
as = ["both"]
[[model.layers]]
type = "linear"
out = 48
parallel = "row"
as = ["down"]
[[model.layers]]
type = "add"
from = ["flat", "down"]
[[model.layers]]
type = "rms_norm"
as = ["normed"]
[[model.layers]]
type = "concat"
from = ["normed", "both"]
[[model.layers]]
type = "reshape"
shape = [4, 20]
[[model.layers]]
type = "linear"
out = 8
parallel = "column"
[[model.layers]]
type = "softmax"
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "linear"
out = 4
[loss]
type = "cross_entropy"
[[metrics]]
type = "accuracy"
[optimizer]
type = "sgd"
rate = 0.05
momentum = 0.9
)";
}

double memory_of(const plait::Plan& plan, const std::string& category) {
  return nlohmann::json::parse(plan.describe())["memory"][category].get<double>();
}

void check_same(const std::vector<Outcome>& got, const Outcome& expected, double tolerance) {
  for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  REQUIRE(got[0].losses.size() == expected.losses.size());
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(got[0].losses[i] == doctest::Approx(expected.losses[i]).epsilon(tolerance));
    CHECK(got[0].norms[i] == doctest::Approx(expected.norms[i]).epsilon(tolerance));
  }
  CHECK(got[0].samples == expected.samples);
  const auto a = nlohmann::json::parse(got[0].evaluation),
             b = nlohmann::json::parse(expected.evaluation);
  CHECK(a["samples"] == b["samples"]);
  CHECK(a["loss"].get<double>() == doctest::Approx(b["loss"].get<double>()).epsilon(tolerance));
  CHECK(a["metrics"]["accuracy"].get<double>() ==
        doctest::Approx(b["metrics"]["accuracy"].get<double>()).epsilon(tolerance));
  for (const auto& [name, values] : expected.weights) {
    CAPTURE(name);
    const std::vector<float>& own = got[0].weights.at(name);
    REQUIRE(own.size() == values.size());
    double worst = 0;
    for (size_t i = 0; i < own.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(own[i]) - values[i]));
    CHECK(worst <= tolerance);
  }
  for (const Outcome& o : got) {
    CHECK(o.losses == got[0].losses);
    CHECK(o.norms == got[0].norms);
    CHECK(o.weights == got[0].weights);
    CHECK(o.evaluation == got[0].evaluation);
  }
}

}  // namespace parallel

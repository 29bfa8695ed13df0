// checkpoint.best: the checkpoint of the best evaluation stays.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

// The rate is so high that the loss of other samples soon grows.
const std::vector<std::string> kKeys = {
    "data.eval={type=\"synthetic\", samples=40, shape=[6], classes=4}",
    "evaluate.every=2",
    "checkpoint.best=loss",
    "checkpoint.keep=1",
    "optimizer.learning_rate=1.0",
    "run.steps=12"};

struct Evaluated {
  int64_t step;
  double loss;
};
std::vector<Evaluated> evaluations(const std::string& run_dir) {
  std::ifstream file(run_dir + "/metrics.ndjson");
  std::vector<Evaluated> found;
  for (std::string line; std::getline(file, line);)
    if (const auto json = nlohmann::json::parse(line); json.value("event", "") == "evaluate")
      found.push_back({json["step"], json["loss"]});
  return found;
}
int64_t best_of(const std::vector<Evaluated>& all) {
  return std::min_element(all.begin(), all.end(),
                          [](const Evaluated& a, const Evaluated& b) { return a.loss < b.loss; })
      ->step;
}
int64_t step_of_best(const std::string& run_dir) {
  Log log{[](uint32_t, std::string_view) {}};
  return checkpoint::open_checkpoint(FileSystem::posix(), run_dir + "/ckpt/best", log)
      ->state()
      .step;
}

Outcome run(const std::vector<std::string>& more, const std::string& dir, FileSystem& files,
            const SettingsOf& settings = {}, int ranks = 1) {
  std::vector<std::string> keys = kKeys;
  keys.insert(keys.end(), more.begin(), more.end());
  return run_all(
      keys, ranks, dir, [&](int) -> FileSystem& { return files; }, settings)[0];
}

// On two ranks each learns of the failure at another step.
void failing_best(int ranks) {
  CAPTURE(ranks);
  const Folder folder;
  const std::string whole = folder / "whole", dir = folder / "run";
  HookedFiles healthy;
  std::vector<std::string> keys = {"checkpoint.every=5", "evaluate.every=1"};
  if (ranks == 2) keys.emplace_back("topology.data=2");
  REQUIRE(run(keys, whole, healthy, {}, ranks).error == "");
  const auto all = evaluations(whole);
  const int64_t best = best_of(all);
  std::vector<Evaluated> others;
  for (const Evaluated& e : all)
    if (e.step != best) others.push_back(e);
  HookedFiles files([&](const std::string& what, const std::string& path) {
    if (what == "mkdir" && path.find("/ckpt/.tmp-" + std::to_string(best) + "-") != path.npos)
      fail_io("[test] no", ENOSPC);
  });
  REQUIRE(run(keys, dir, files, {}, ranks).error == "");
  CHECK(step_of_best(dir) == best_of(others));
}

TEST_CASE("the checkpoint of the best evaluation stays beside the newest") {
  HookedFiles files;
  const std::vector<std::vector<std::string>> ways = {
      {}, {"checkpoint.every=1"}, {"checkpoint.every=3", "checkpoint.background=false"}};
  for (const auto& way : ways)
    for (const int ranks : {1, 2}) {
      CAPTURE(way);
      const Folder folder;
      const std::string dir = folder / "run";
      std::vector<std::string> keys = way;
      if (ranks == 2) keys.emplace_back("topology.data=2");
      REQUIRE(run(keys, dir, files, {}, ranks).error == "");
      const auto all = evaluations(dir);
      REQUIRE(all.size() == 6);
      const int64_t best = best_of(all);
      REQUIRE(best < 12);  // else the test shows nothing
      CHECK(step_of_best(dir) == best);
      CHECK(steps_of(dir) == std::vector<int64_t>{best, 12});
    }
}

TEST_CASE("early stopping keeps the best of its metric, unless told otherwise") {
  HookedFiles files;
  for (const bool none : {false, true}) {
    const Folder folder;
    const std::string dir = folder / "run";
    std::vector<std::string> keys = {"evaluate.early_stop={metric=\"loss\", patience=2}",
                                     "run.steps=40",
                                     none ? "checkpoint.best=none" : "~checkpoint.best"};
    REQUIRE(run(keys, dir, files).error == "");
    const auto all = evaluations(dir);
    CHECK(all.back().step < 40);
    const int64_t best = best_of(all);
    CHECK(steps_of(dir) == (none ? std::vector<int64_t>{all.back().step}
                                 : std::vector<int64_t>{best, all.back().step}));
    CHECK(std::filesystem::exists(dir + "/ckpt/best") == !none);
  }
}

TEST_CASE("a resumed run knows the best one; a worse one does not replace it") {
  HookedFiles files;
  const Folder folder;
  const std::string whole = folder / "whole", dir = folder / "run";
  REQUIRE(run({}, whole, files).error == "");
  const int64_t best = best_of(evaluations(whole));
  const Outcome first = run({}, dir, files, [&](int, session::Settings& s) {
    s.on_step = [&](const session::StepResult& r) { return r.step == best + 3; };
  });
  CHECK(first.code == PLAIT_ERR_CANCELLED);
  CHECK(step_of_best(dir) == best);
  REQUIRE(run({}, dir, files, [](int, session::Settings& s) {
            s.resume = session::Resume::kMust;
          }).error == "");
  CHECK(step_of_best(dir) == best);
  CHECK(steps_of(dir) == std::vector<int64_t>{best, 12});
}

TEST_CASE("another metric, or other parameters: what was the best counts no more") {
  HookedFiles files;
  const Folder folder;
  const std::string dir = folder / "run";
  REQUIRE(run({"run.steps=6"}, dir, files).error == "");
  const auto before = evaluations(dir);
  const auto resumes = [](int, session::Settings& s) { s.resume = session::Resume::kMust; };
  // Its first value is the best so far, whatever that of the loss was.
  const Outcome o =
      run({"checkpoint.best=accuracy", "run.steps=8", "model.metrics=[{type=\"accuracy\"}]"}, dir,
          files, resumes);
  REQUIRE(o.error == "");
  CHECK(step_of_best(dir) == 8);
  session::Settings settings;
  settings.run_dir = folder / "other";
  std::vector<std::string> keys = kKeys;
  const Rank rank(keys, files, settings);
  rank.session->load(dir);
  CHECK(rank.session->run().step == 12);
  CHECK(step_of_best(folder / "other") >= 10);  // of its own evaluations
  rank.session->load_parameters(dir);
  rank.session->save("");
  CHECK_FALSE(std::filesystem::exists(folder / "other/ckpt/best"));
}

// One model's metrics may be named with the model or without it.
TEST_CASE("the best of a metric that is named with its model is the best of that metric") {
  HookedFiles files;
  const Folder folder;
  const std::vector<std::string> metrics = {
      "model.metrics=[{type=\"accuracy\", name=\"other\"}, {type=\"accuracy\"}]"};
  std::vector<int64_t> steps;
  for (const std::string name : {"accuracy", "model.accuracy"}) {
    std::vector<std::string> keys = metrics;
    keys.push_back("checkpoint.best=" + name);
    REQUIRE(run(keys, folder / name, files).error == "");
    steps.push_back(step_of_best(folder / name));
  }
  CHECK(steps[0] == steps[1]);
}

TEST_CASE("a best checkpoint that cannot be written is not the best; the one before it stays") {
  for (const int ranks : {1, 2}) failing_best(ranks);
}

}  // namespace

// run.from: a new run that continues from a checkpoint of another run.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;

Outcome run(std::vector<std::string> keys, const std::string& dir, int ranks = 1,
            const SettingsOf& settings = {}) {
  static HookedFiles files;
  if (ranks == 2) keys.emplace_back("topology.data=2");
  return run_all(
      keys, ranks, dir, [&](int) -> FileSystem& { return files; }, settings)[0];
}

// The lines of a run's metrics that are of a step: {step: line}.
std::map<int64_t, nlohmann::json> lines_of(const std::string& run_dir) {
  std::ifstream file(run_dir + "/metrics.ndjson");
  std::map<int64_t, nlohmann::json> found;
  for (std::string line; std::getline(file, line);)
    if (const auto json = nlohmann::json::parse(line);
        json.contains("loss") && json["loss"].is_number() && !json.contains("event"))
      found.emplace(json["step"].get<int64_t>(), json);
  return found;
}

TEST_CASE("a run from a checkpoint of another run ends as if it were one") {
  const Folder folder;
  const std::string whole = folder / "whole", half = folder / "half", rest = folder / "rest";
  const Outcome all = run({"checkpoint.every=4"}, whole);
  REQUIRE(all.error == "");
  REQUIRE(run({"run.steps=7"}, half).error == "");
  const auto before = tensors_of(half);
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    std::filesystem::remove_all(rest);
    const Outcome o = run({"run.from=" + half, "checkpoint.every=4"}, rest, ranks);
    REQUIRE(o.error == "");
    CHECK(o.last.step == 12);
    CHECK(o.last.samples == all.last.samples);
    CHECK(o.last.skipped_steps == 0);
    if (ranks == 1) CHECK(o.weights == all.weights);
    for (const auto& [name, values] : o.weights)
      for (size_t i = 0; ranks == 2 && i < values.size(); ++i)
        CHECK(values[i] == doctest::Approx(all.weights.at(name)[i]).epsilon(1e-4));
    // Its files tell of the steps that it made.
    CHECK(steps_of(rest) == std::vector<int64_t>{8, 12});
    const auto lines = lines_of(rest);
    CHECK(lines.begin()->first == 8);
    CHECK(lines.size() == 5);
    CHECK(lines.at(12)["loss"].get<double>() ==
          doctest::Approx(lines_of(whole).at(12)["loss"].get<double>()));
  }
  CHECK(tensors_of(half) == before);
}

TEST_CASE("a resumed run takes its own checkpoint, and run.from before there is one") {
  const Folder folder;
  const std::string first = folder / "first", second = folder / "second";
  REQUIRE(run({"run.steps=4"}, first).error == "");
  const std::vector<std::string> keys = {"run.from=" + first, "run.resume=auto"};
  const auto stops_at = [](int64_t step) {
    return [step](int, session::Settings& s) {
      s.on_step = [step](const session::StepResult& r) { return r.step == step; };
    };
  };
  CHECK(run(keys, second, 1, stops_at(6)).code == PLAIT_ERR_CANCELLED);
  CHECK(steps_of(second) == std::vector<int64_t>{6});
  std::filesystem::remove_all(first);  // it is not needed any more
  const Outcome rest = run(keys, second);
  REQUIRE(rest.error == "");
  CHECK(rest.last.step == 12);
  const auto lines = lines_of(second);
  CHECK(lines.begin()->first == 5);
  CHECK(lines.size() == 8);
}

TEST_CASE("without the position a run begins at step 0 with the optimizer's states") {
  const Folder folder;
  const std::string first = folder / "first", second = folder / "second", third = folder / "third";
  const Outcome all = run({"run.steps=7"}, first);
  REQUIRE(all.error == "");
  const std::vector<std::string> keys = {"run.from=" + first, "run.from_position=false"};
  std::vector<std::string> one = keys;
  // A step of a rate of 0 shows what it begins with, and that the moments are there.
  one.insert(one.end(), {"run.steps=1", "optimizer.learning_rate=0.0"});
  const Outcome still = run(one, second);
  REQUIRE(still.error == "");
  CHECK(still.weights == all.weights);
  CHECK(still.last.step == 1);
  CHECK(still.last.samples == 8);
  CHECK(still.last.skipped_steps == 0);
  // The count of updates goes into Adam's bias corrections: here of update 8, as a step
  // whose data is the same shows (the first batch of a run of the same seed).
  const auto half_of = [&](bool states) {
    const Folder other;
    std::vector<std::string> more = {"run.steps=1"};
    if (states)
      more.insert(more.end(), keys.begin(), keys.end());
    else
      more.push_back("model.load=" + first);
    const Outcome o = run(more, other / "run");
    REQUIRE(o.error == "");
    double moved = 0;
    for (const auto& [name, values] : o.weights)
      for (size_t i = 0; i < values.size(); ++i)
        moved += std::fabs(values[i] - all.weights.at(name)[i]);
    return moved;
  };
  // Fresh moments move every weight by the whole rate; kept ones move most of them by less.
  CHECK(half_of(true) < 0.95 * half_of(false));
  // Such a run resumes with its counts.
  const auto stops = [](int, session::Settings& s) {
    s.on_step = [](const session::StepResult& r) { return r.step == 5; };
  };
  CHECK(run(keys, third, 1, stops).code == PLAIT_ERR_CANCELLED);
  const Outcome resumed =
      run(keys, third, 1, [](int, session::Settings& s) { s.resume = session::Resume::kMust; });
  REQUIRE(resumed.error == "");
  CHECK(resumed.last.step == 12);
  CHECK(resumed.last.skipped_steps == 0);
  const Outcome through = run(keys, folder / "through");
  CHECK(resumed.weights == through.weights);
}

TEST_CASE("what the other run compared its evaluations with does not count") {
  const Folder folder;
  const std::string first = folder / "first", second = folder / "second";
  const std::vector<std::string> keys = {
      "data.eval={type=\"synthetic\", samples=40, shape=[6], classes=4}", "evaluate.every=2",
      "evaluate.early_stop.metric=loss", "evaluate.early_stop.patience=1",
      "evaluate.early_stop.min_delta=10.0"};
  const Outcome early = run(keys, first);  // the second evaluation is no gain of 10
  REQUIRE(early.error == "");
  CHECK(early.last.step == 4);
  std::vector<std::string> more = keys;
  more.push_back("run.from=" + first);
  const Outcome o = run(more, second);
  REQUIRE(o.error == "");
  CHECK(o.last.step == 8);  // again the second one
}

TEST_CASE("what run.from cannot take") {
  const Folder folder;
  const std::string first = folder / "first", second = folder / "second";
  REQUIRE(run({"run.steps=2"}, first).error == "");
  const auto error = [&](const std::vector<std::string>& keys) {
    const Outcome o = run(keys, second);
    CHECK(o.code != PLAIT_OK);
    CHECK_FALSE(std::filesystem::exists(second));
    return o.error;
  };
  CHECK(error({"run.from=" + (folder / "none")}).find("run.from names '") != std::string::npos);
  CHECK(error({"run.from=" + first + "/ckpt/step-0000000002/model.safetensors"})
            .find("weights alone are read by model.load") != std::string::npos);
  CHECK(error({"run.from=" + first, "optimizer={type=\"sgd\", momentum=0.5}"})
            .find("was saved with adamw") != std::string::npos);
}

TEST_CASE(
    "a run from a checkpoint at its last step, or beyond it, says that there is nothing to do") {
  const Folder folder;
  const std::string first = folder / "first";
  REQUIRE(run({"run.steps=4"}, first).error == "");
  HookedFiles files;
  for (const auto& [steps, says] : {std::pair(3, true), {4, true}, {5, false}}) {
    session::Settings settings;
    settings.run_dir = folder / std::to_string(steps);
    const Rank rank({"run.from=" + first, "run.steps=" + std::to_string(steps)}, files, settings);
    CHECK(rank.session->run().step == std::max(4, steps));
    const std::string line = "[session] run.from is at step 4, and the run ends at step " +
                             std::to_string(steps) +
                             ": there is nothing to train; set run.steps to more";
    CHECK((std::find(rank.lines.begin(), rank.lines.end(), line) != rank.lines.end()) == says);
  }
}

}  // namespace

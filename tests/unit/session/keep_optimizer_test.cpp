// checkpoint.keep_optimizer: older checkpoints lose the optimizer's states; they serve for all but
// continuing a run exactly.
#include <filesystem>

#include "engine/base/error.hpp"
#include "engine/checkpoint/store.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;
using Steps = std::vector<int64_t>;

Outcome run(std::vector<std::string> keys, const std::string& dir, int ranks = 1,
            const SettingsOf& settings = {}) {
  static HookedFiles files;
  if (ranks > 1) keys.insert(keys.end(), {"topology.data=2", "topology.zero=1"});
  if (ranks > 2) keys.emplace_back("topology.tensor=2");
  return run_all(
      keys, ranks, dir, [&](int) -> FileSystem& { return files; }, settings)[0];
}

std::string path_of(const std::string& dir, int64_t step) {
  return dir + "/ckpt/step-00000000" + std::string(step < 10 ? "0" : "") + std::to_string(step);
}

bool has_states(const std::string& dir, int64_t step) {
  const checkpoint::Checkpoint c(FileSystem::posix(), path_of(dir, step));
  const bool found = c.find("model.linear1.weight.m") != nullptr;
  CHECK(c.state().states_left_out != found);
  return found;
}

Steps with_states(const std::string& dir) {
  Steps all;
  for (const int64_t step : steps_of(dir))
    if (has_states(dir, step)) all.push_back(step);
  return all;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Steps 3, 6, 9 and 12, of which the newest two have states.
void make_run(const std::string& dir) {
  REQUIRE(run({"checkpoint.every=3", "checkpoint.keep_optimizer=2"}, dir).error == "");
}

TEST_CASE("the newest checkpoints keep the states, and weights and steps are as without the key") {
  for (const int ranks : {1, 2, 4})
    for (const bool background : {true, false}) {
      CAPTURE(ranks);
      const Folder folder;
      const std::string all = folder / "all", some = folder / "some";
      std::vector<std::string> keys = {"checkpoint.every=3"};
      if (!background) keys.emplace_back("checkpoint.background=false");
      REQUIRE(run(keys, all, ranks).error == "");
      keys.emplace_back("checkpoint.keep_optimizer=2");
      REQUIRE(run(keys, some, ranks).error == "");
      CHECK(with_states(all) == Steps{3, 6, 9, 12});
      CHECK(with_states(some) == Steps{9, 12});
      const auto before = tensors_of(all), after = tensors_of(some);
      for (const auto& [file, content] : after) CHECK(before.at(file) == content);
      CHECK(after.size() == before.size() - static_cast<size_t>(2 * ranks));
    }
}

TEST_CASE("no run continues from one without states; the error names one that has them") {
  for (const int ranks : {1, 2}) {
    const Folder folder;
    const std::string dir = folder / "run", next = folder / "next";
    make_run(dir);
    for (const char* position : {"true", "false"}) {
      const Outcome o = run({"run.from=" + path_of(dir, 6),
                             std::string("run.from_position=") + position, "run.steps=15"},
                            next, ranks);
      CHECK(o.code == PLAIT_ERR_CONFIG);
      CHECK(has(o.error, "'" + path_of(dir, 6) + "' lacks optimizer states"));
      CHECK(has(o.error, "run.from = \"" + path_of(dir, 12) + "\", the newest one that has them"));
      CHECK(has(o.error, "model.load = \"" + path_of(dir, 6) + "\""));
      CHECK_FALSE(std::filesystem::exists(next));
    }
    CHECK(run({"run.from=" + path_of(dir, 9), "run.steps=15"}, next, ranks).error == "");
    CHECK(run({"model.load=" + path_of(dir, 6)}, folder / "loaded", ranks).error == "");
  }
}

TEST_CASE("a resume falls back to no checkpoint without states") {
  const Folder folder;
  const std::string dir = folder / "run";
  make_run(dir);
  std::filesystem::resize_file(path_of(dir, 12) + "/model.safetensors", 100);
  std::filesystem::remove_all(path_of(dir, 9));
  const auto resumes = [](int, session::Settings& s) { s.resume = session::Resume::kMust; };
  const Outcome o = run({}, dir, 1, resumes);
  CHECK(o.code == PLAIT_ERR_CONFIG);
  CHECK(has(o.error, "'" + path_of(dir, 6) + "' lacks optimizer states"));
  CHECK(has(o.error, "start a new run with model.load = \"" + path_of(dir, 6) + "\""));
  CHECK_FALSE(has(o.error, "run.from"));
}

TEST_CASE("a session loads the parameters of one without states, and refuses all of it") {
  const Folder folder;
  const std::string dir = folder / "run";
  make_run(dir);
  HookedFiles files;
  session::Settings settings;
  settings.no_files = true;
  const Rank rank({}, files, settings);
  try {
    rank.session->load(path_of(dir, 3));
    FAIL("loaded");
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_CONFIG);
    CHECK(has(e.full_text(), "the newest one that has them"));
  }
  rank.session->load_parameters(path_of(dir, 3));
  rank.session->load(path_of(dir, 9));
  // An optimizer that has no states needs none.
  const Rank plain({"optimizer={type=\"sgd\", learning_rate=0.1}"}, files, settings);
  plain.session->load(path_of(dir, 3));
  CHECK(plain.session->step().step == 4);
}

TEST_CASE("a run of an optimizer without states continues from each of its checkpoints") {
  const Folder folder;
  const std::string dir = folder / "run";
  const std::string sgd = "optimizer={type=\"sgd\", learning_rate=0.1}";
  REQUIRE(run({sgd, "checkpoint.every=3", "checkpoint.keep_optimizer=1"}, dir).error == "");
  for (const int64_t step : {3, 6, 9, 12}) {
    const checkpoint::Checkpoint c(FileSystem::posix(), path_of(dir, step));
    CHECK_FALSE(c.state().states_left_out);
  }
  CHECK(run({sgd, "run.from=" + path_of(dir, 3)}, folder / "next").error == "");
}

}  // namespace

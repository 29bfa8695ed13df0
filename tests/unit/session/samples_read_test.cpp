// Who opens datasets: ranks whose programs read no samples ask for descriptions alone.

#include "engine/session/identity.hpp"
#include "tests/unit/session/counting_plugin.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait::test;
using plait::FileSystem;

// Trains 6 steps with evaluations.
std::vector<Outcome> train(const std::string& dataset, int ranks, std::vector<std::string> keys) {
  counts.clear();
  extra_plugin = &kCountingPlugin;
  const Folder folder;
  keys.insert(keys.end(),
              {"run.steps=6", "evaluate.every=3", "data.train={type = \"" + dataset + "\"}",
               "data.eval={type = \"" + dataset + "\"}"});
  const auto outcomes = run_all(keys, ranks, folder / "run", [](int rank) -> FileSystem& {
    this_rank = rank;
    return FileSystem::posix();
  });
  extra_plugin = nullptr;
  for (const Outcome& o : outcomes) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  return outcomes;
}

}  // namespace

TEST_CASE("the middle of a pipeline opens no dataset for samples") {
  const std::vector<std::string> pipeline = {"topology.pipeline=3", "topology.stages=[1,2,1]",
                                             "batch.micro=4"};
  const auto alone = train("described", 1, {});
  CHECK(counts[0].opened == 2);
  const auto found = train("described", 3, pipeline);
  for (const int rank : {0, 2}) {
    CHECK(counts[rank].opened == 2);
    CHECK(counts[rank].described == 0);
    CHECK(counts[rank].read > 0);
  }
  CHECK(counts[1].opened == 0);
  CHECK(counts[1].described == 2);
  CHECK(counts[1].read == 0);
  CHECK(found[1].last.samples == alone[0].last.samples);
  CHECK(found[1].last.epoch == alone[0].last.epoch);
  for (const auto& [name, values] : alone[0].weights)
    for (size_t i = 0; i < values.size(); ++i)
      CHECK(found[1].weights.at(name)[i] == doctest::Approx(values[i]).epsilon(1e-4));
  // A dataset that can only be opened as a whole is closed again before a session opens.
  train("counted", 3, pipeline);
  CHECK(counts[1].opened == 2);
  CHECK(counts[1].read == 0);
  counts.clear();
  extra_plugin = &kCountingPlugin;
  this_rank = 1;
  plait::Log log{[](uint32_t, std::string_view) {}};
  std::vector<std::string> keys = pipeline;
  keys.emplace_back("data.train={type = \"counted\"}");
  const auto plan = make_plan(keys, FileSystem::posix(), 1, 3, log);
  extra_plugin = nullptr;
  CHECK(counts[1].opened == 1);
  CHECK(counts[1].closed == 1);
  CHECK_FALSE(plan->dataset("train")->has_samples());
  CHECK(plan->dataset("train")->info().n_samples == 60);
  CHECK(std::string_view(plan->dataset("train")->fields()[1].name) == "label");
}

TEST_CASE("a middle stage that reads a field opens what it was not expected to need") {
  train("described", 3,
        {"topology.pipeline=3", "topology.stages=[1,1,1]", "batch.micro=4",
         "model.layers=[{type = \"linear\", out = 6, name = \"first\"}, "
         "{type = \"test.sum\", from = [\"first\", \"x\"]}, {type = \"linear\", out = 4}]"});
  CHECK(counts[1].described == 2);
  CHECK(counts[1].opened == 2);
  CHECK(counts[1].read > 0);
}

TEST_CASE("ranks that know the content of the data compare it") {
  plait::Log log{[](uint32_t, std::string_view) {}};
  const auto plan = make_plan({}, FileSystem::posix(), 0, 1, log);
  const auto text = [&](const std::vector<std::vector<std::string>>& of) {
    return plait::session::differing_contents(*plan, of);
  };
  CHECK(text({{"a"}, {""}, {"a"}}).empty());
  CHECK(text({{""}, {"a"}, {}, {"a"}}).empty());
  CHECK(text({{"a"}, {""}, {"b"}}) ==
        "[session] the content of [data.train] is b on rank 2, and a on rank 0; give all ranks the "
        "same files");
}

// The programs of whole plans as text: they read back, are valid, and train to the same bits.
#include "engine/base/text.hpp"
#include "engine/plan/print_programs.hpp"
#include "engine/program/text/parse.hpp"
#include "engine/program/text/print.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;

std::vector<program::ParsedProgram> read_back(const plan::Plan& plan) {
  return program::parse(plan::print_programs(plan, ""), *plan.ops, "plan");
}

std::vector<float> weights_after(const std::shared_ptr<const plan::Plan>& plan, Log& log) {
  const test::Folder folder;
  session::Settings settings;
  settings.run_dir = folder / "run";
  session::Session session(plan, std::move(settings), log, FileSystem::posix());
  session.run();
  std::vector<float> all;
  for (const plan::Parameter& p : plan->parameters) {
    std::vector<float> values(static_cast<size_t>(program::elements(p.shape)));
    session.read(p.name, values.data(), values.size() * sizeof(float));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace

TEST_CASE("the programs of every layout read back as they are, and are valid") {
  Log log;
  const struct {
    int ranks;
    std::vector<std::string> keys;
  } kLayouts[] = {
      {1, {}},
      {1, {"batch.micro=4", "precision.compute=f64"}},
      {1, {"batch.micro=4", "precision.compute=f16"}},
      {2, {"topology.data=2", "topology.zero=1", "precision.compute=bf16"}},
      {4, {"topology.tensor=2", "topology.pipeline=2", "batch.micro=2", "precision.compute=f16"}},
      {2, {"topology.data=2"}},
      {2, {"topology.data=2", "topology.zero=1", "topology.bucket_mib=0.001"}},
      {2, {"topology.data=2", "topology.zero=2", "batch.micro=2"}},
      {2, {"topology.data=2", "topology.zero=3", "topology.recompute=layer"}},
      {2, {"topology.tensor=2"}},
      {8,
       {"topology.data=2", "topology.tensor=2", "topology.pipeline=2", "batch.micro=2",
        "topology.zero=1"}},
      {4,
       {"topology.data=2", "topology.pipeline=2", "batch.micro=2", "topology.zero=2",
        "topology.recompute=stage", "topology.schedule=zero_bubble"}},
  };
  for (const auto& layout : kLayouts)
    for (int rank = 0; rank < layout.ranks; ++rank) {
      CAPTURE(join(layout.keys, " "));
      CAPTURE(rank);
      const auto plan = test::make_plan(layout.keys, FileSystem::posix(), rank, layout.ranks, log);
      const auto programs = read_back(*plan);
      REQUIRE(programs.size() == plan->programs.size());
      for (size_t i = 0; i < programs.size(); ++i) {
        CHECK(programs[i].name == plan->programs[i].name);
        CHECK(program::print(*programs[i].graph) == program::print(*plan->programs[i].graph));
        const auto fault = program::find_fault(*programs[i].graph);
        CHECK_MESSAGE(!fault, (fault ? fault->what : ""));
      }
    }
}

TEST_CASE("programs that were read from their text train to the same bits") {
  Log log;
  const std::shared_ptr<const plan::Plan> written =
      test::make_plan({}, FileSystem::posix(), 0, 1, log);
  plan::Plan read = *written;
  auto programs = read_back(read);
  REQUIRE(programs.size() == read.programs.size());
  for (size_t i = 0; i < programs.size(); ++i)
    read.programs[i].graph = std::move(programs[i].graph);
  const std::vector<float> expected = weights_after(written, log);
  CHECK(expected.size() > 100);
  CHECK(weights_after(std::make_shared<const plan::Plan>(std::move(read)), log) == expected);
}

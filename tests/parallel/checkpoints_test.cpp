// A checkpoint is of global tensors: whoever wrote it, any layout goes on from it.
#include <random>

#include "tests/parallel/ranks.hpp"

namespace {

using namespace parallel;

struct Layout {
  int data = 1, tensor = 1, zero = 0, pipeline = 1, chunks = 1;
  uint32_t ranks() const { return static_cast<uint32_t>(data * tensor * pipeline); }
  std::vector<std::string> overrides() const {
    return {"topology.pipeline=" + std::to_string(pipeline),
            "topology.schedule=interleaved",
            "topology.chunks=" + std::to_string(chunks),
            "batch.micro=2",
            "batch.eval=8",
            "topology.data=" + std::to_string(data),
            "topology.tensor=" + std::to_string(tensor),
            "topology.zero=" + std::to_string(zero),
            "topology.bucket=0.001"};
  }
  std::string text() const {
    return "data " + std::to_string(data) + ", tensor " + std::to_string(tensor) + ", zero " +
           std::to_string(zero) + ", pipeline " + std::to_string(pipeline) + " of " +
           std::to_string(chunks) + " stages";
  }
};

Body save_after(int steps, const std::string& path) {
  return [=](uint32_t, plait::Session& session, Outcome&) {
    for (int i = 0; i < steps; ++i) session.step();
    session.save(path);
  };
}

Body go_on(const std::string& path, int steps) {
  return [=](uint32_t rank, plait::Session& session, Outcome& outcome) {
    session.load(path);
    train(steps)(rank, session, outcome);
  };
}

TEST_SUITE("checkpoints") {
  TEST_CASE("a vocabulary that tensor ranks share with padding") {
    const Folder folder;
    Team team{vocabulary_model(folder, 13), {"batch.micro=2", "batch.eval=8"}, {}, {}};
    Outcome straight = run(team, 1, train(25))[0];
    REQUIRE_MESSAGE(straight.code == PLAIT_OK, straight.error);
    straight.losses.erase(straight.losses.begin(), straight.losses.begin() + 5);
    straight.norms.erase(straight.norms.begin(), straight.norms.begin() + 5);
    const std::vector<Layout> all{{1, 4, 0}, {2, 2, 3}, {1, 1, 0}, {1, 2, 0, 2, 1}, {2, 4, 1}};
    for (size_t i = 0; i < all.size(); ++i) {
      const Layout &from = all[i], &to = all[(i + 1) % all.size()];
      CAPTURE(from.text());
      CAPTURE(to.text());
      const std::string path = folder / ("vocabulary" + std::to_string(i));
      team.overrides = from.overrides();
      for (const Outcome& o : run(team, from.ranks(), save_after(5, path)))
        REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
      team.overrides = to.overrides();
      check_same(run(team, to.ranks(), go_on(path, 20)), straight, 1e-5);
    }
  }

  TEST_CASE("30 random pairs: saved by one layout, loaded by another, the next 50 losses agree") {
    const Folder folder;
    Team team{model(folder), {"batch.micro=2", "batch.eval=8"}, {}, {}};
    constexpr int kBefore = 9, kAfter = 50;
    Outcome straight = run(team, 1, train(kBefore + kAfter))[0];
    REQUIRE_MESSAGE(straight.code == PLAIT_OK, straight.error);
    straight.losses.erase(straight.losses.begin(), straight.losses.begin() + kBefore);
    straight.norms.erase(straight.norms.begin(), straight.norms.begin() + kBefore);

    std::mt19937 random(1);
    const std::vector<Layout> all{
        {1, 1, 0},       {2, 1, 0},       {2, 1, 2},       {4, 1, 1},       {8, 1, 3},
        {1, 2, 0},       {1, 4, 0},       {2, 2, 0},       {2, 2, 3},       {4, 2, 1},
        {2, 4, 3},       {1, 1, 0, 2, 1}, {1, 1, 0, 4, 1}, {2, 1, 1, 2, 2}, {2, 1, 3, 4, 1},
        {1, 2, 0, 2, 3}, {2, 2, 2, 2, 1}};
    for (int pair = 0; pair < 30; ++pair) {
      const Layout &from = all[random() % all.size()], &to = all[random() % all.size()];
      CAPTURE(pair);
      CAPTURE(from.text());
      CAPTURE(to.text());
      const std::string path = folder / ("pair" + std::to_string(pair));
      team.overrides = from.overrides();
      for (const Outcome& o : run(team, from.ranks(), save_after(kBefore, path)))
        REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
      team.overrides = to.overrides();
      check_same(run(team, to.ranks(), go_on(path, kAfter)), straight, 1e-5);
    }
  }
}

}  // namespace

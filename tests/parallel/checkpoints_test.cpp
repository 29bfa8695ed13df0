// A checkpoint holds global tensors: any layout can resume from it, whichever layout wrote it.
#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

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

// The result of one rank for `after` steps that follow `before` others, without a stop in between.
Outcome straight(const JobSpec& job_spec, int before, int after) {
  Outcome all = run(job_spec, 1, train(before + after))[0];
  REQUIRE_MESSAGE(all.code == PLAIT_OK, all.error);
  all.losses.erase(all.losses.begin(), all.losses.begin() + before);
  all.norms.erase(all.norms.begin(), all.norms.begin() + before);
  all.initial.clear();  // a rank that resumes from a checkpoint starts with other values
  return all;
}

// Saves after `before` steps on one layout, resumes on another.
void check_pair(JobSpec& job_spec, const Layout& from, const Layout& to, const std::string& path,
                int before, const Outcome& expected) {
  CAPTURE(from.text());
  CAPTURE(to.text());
  job_spec.overrides = from.overrides();
  for (const Outcome& o : run(job_spec, from.ranks(), save_after(before, path)))
    REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  job_spec.overrides = to.overrides();
  const int after = static_cast<int>(expected.losses.size());
  check_same(run(job_spec, to.ranks(), go_on(path, after)), expected);
}

constexpr int kPairs = 30;
constexpr int kShares = 2;

// One half of the random pairs.
void check_share() {
  const Folder folder;
  JobSpec job_spec{deep_model(folder), {"batch.micro=2", "batch.eval=8"}, {}, {}};
  const Outcome expected = straight(job_spec, 9, 50);
  std::mt19937 random = seeded();
  const std::vector<std::vector<Layout>> all = grids();
  const auto any = [&] {
    const std::vector<Layout>& grid = all[random() % all.size()];
    Layout layout = grid[random() % grid.size()];
    if (random() % 2) layout.recompute = random() % 2 ? "layer" : "stage";
    return layout;
  };
  for (int pair = 0; pair < kPairs / kShares; ++pair) {
    const Layout from = any(), to = any();
    check_pair(job_spec, from, to, folder / ("pair" + std::to_string(pair)), 9, expected);
  }
}

const char kName[] =
    "30 random pairs in two halves: saved by one layout, loaded by another, the next 50 losses "
    "agree";

TEST_SUITE("checkpoints_1") {
  TEST_CASE("a vocabulary that tensor ranks share with padding") {
    const Folder folder;
    JobSpec job_spec{vocabulary_model(folder, 13), {"batch.micro=2", "batch.eval=8"}, {}, {}};
    const Outcome expected = straight(job_spec, 5, 20);
    const std::vector<Layout> all{{1, 1, 4}, {1, 2, 2, 3}, {1, 1, 1}, {2, 1, 2}, {1, 2, 4, 1}};
    for (size_t i = 0; i < all.size(); ++i)
      check_pair(job_spec, all[i], all[(i + 1) % all.size()],
                 folder / ("vocabulary" + std::to_string(i)), 5, expected);
  }

  TEST_CASE(kName) { check_share(); }
}
TEST_SUITE("checkpoints_2") {
  TEST_CASE(kName) { check_share(); }
}

}  // namespace

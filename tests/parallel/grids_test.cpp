// The topology is invisible in the result: the MLP on every grid. PLAIT_TEST_ALL=1 tries every
// combination of settings, otherwise a sample with each grid at least once.
#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr int kSteps = 50;
constexpr size_t kShares = 3;
constexpr char kFrozen[] = "model.kept.weight";

// A third of the grids.
void check_share(size_t share) {
  const Folder folder;
  JobSpec job_spec{deep_model(folder), {"batch.eval=8"}, {}, {}};
  const Outcome expected = run(job_spec, 1, train(kSteps))[0];
  REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
  std::mt19937 random = seeded();
  Difference worst;
  int layouts = 0;
  const auto train_on = [&](const Layout& layout) {
    job_spec.overrides = layout.overrides();
    const auto outcomes = run(job_spec, layout.ranks(), train(kSteps));
    worst.include(check_same(outcomes, expected));
    CHECK(outcomes[0].weights.at(kFrozen) == outcomes[0].initial.at(kFrozen));
    return outcomes[0];
  };
  std::vector<std::vector<Layout>> all = grids();
  for (size_t g = 0; g < all.size(); ++g) {
    std::vector<Layout>& grid = all[g];
    if (!try_all()) grid = {grid[random() % grid.size()]};
    const size_t again = random() % grid.size();
    if (g % kShares != share) continue;
    for (size_t i = 0; i < grid.size(); ++i) {
      Layout& layout = grid[i];
      CAPTURE(layout.text());
      const Outcome plain = train_on(layout);
      if (i == again) check_equal(train_on(layout), plain);
      layout.recompute = "layer";
      check_equal(train_on(layout), plain);
      layouts += 2;
    }
  }
  CHECK(layouts > 0);
  MESSAGE(layouts << " layouts; worst relative difference of a loss " << worst.losses
                  << ", of a gradient norm " << worst.norms << ", of a weight " << worst.weights);
}

const char kName[] =
    "1, 2, 4 and 8 ranks, ZeRO, recompute, schedules: the same initial bits, 50 steps within 1e-5 "
    "of one rank, twice the same bits";
TEST_SUITE("grids_1") {
  TEST_CASE(kName) { check_share(0); }
}
TEST_SUITE("grids_2") {
  TEST_CASE(kName) { check_share(1); }
}
TEST_SUITE("grids_3") {
  TEST_CASE(kName) { check_share(2); }
}

}  // namespace

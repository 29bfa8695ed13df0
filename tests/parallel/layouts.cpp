#include "tests/parallel/layouts.hpp"

#include <algorithm>
#include <cstdlib>

namespace parallel {

std::vector<std::string> Layout::overrides() const {
  return {"topology.pipeline=" + std::to_string(pipeline),
          "topology.data=" + std::to_string(data),
          "topology.tensor=" + std::to_string(tensor),
          "topology.zero=" + std::to_string(zero),
          "topology.schedule=" + schedule,
          "topology.virtual_stages=" + std::to_string(chunks),
          "topology.recompute=" + recompute,
          "topology.recompute_flops=1",  // products of these models are small
          std::string("topology.sequence=") + (sequence ? "true" : "false"),
          "batch.micro=" + std::to_string(micro),
          "batch.eval=8",
          "topology.bucket_mib=0.001"};
}

std::string Layout::text() const {
  std::string all;
  for (const auto& o : overrides()) all += o + " ";
  return all;
}

namespace {

// n: number of layouts so far. Neighbours, and layouts that differ only in ZeRO, get different
// numbers of micro-batches.
std::vector<Layout> layouts_of(int pipeline, int data, int tensor, int& n) {
  std::vector<Layout> all;
  for (int zero = 0; zero <= (data > 1 ? 3 : 0); ++zero)
    for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zero_bubble"}) {
      Layout layout{pipeline, data, tensor, zero, schedule};
      if (layout.schedule == "interleaved") layout.chunks = 2;
      if (pipeline == 1 && layout.schedule != "1f1b") break;
      const int passes = 1 << (n + n / 4) % 4;
      layout.micro = std::max(1, kGlobalBatch / data / passes);
      layout.sequence = tensor > 1 && n % 2 == 0;
      ++n;
      all.push_back(std::move(layout));
    }
  return all;
}

}  // namespace

std::vector<std::vector<Layout>> grids() {
  std::vector<std::vector<Layout>> all;
  int n = 0;
  for (int ranks = 1; ranks <= 8; ranks *= 2)
    for (int pipeline = 1; pipeline <= ranks; pipeline *= 2)
      for (int tensor = 1; pipeline * tensor <= ranks; tensor *= 2)
        all.push_back(layouts_of(pipeline, ranks / pipeline / tensor, tensor, n));
  return all;
}

std::vector<Layout> few_layouts() {
  std::vector<Layout> all{
      {1, 1, 1, 0, "1f1b", 1, 4, "layer"},
      {1, 2, 1, 0, "1f1b", 1, 8},
      {1, 2, 1, 2, "1f1b", 1, 4},
      {1, 2, 1, 3, "1f1b", 1, 2, "cheap"},
      {1, 1, 2, 0, "1f1b", 1, 16},
      {2, 1, 1, 0, "1f1b", 1, 4},
      {2, 1, 1, 0, "zero_bubble", 1, 4, "layer"},
      {1, 2, 2, 1, "1f1b", 1, 4},
  };
  all.push_back({1, 1, 4, 0, "1f1b", 1, 8});
  all.back().sequence = true;
  return all;
}

JobSpec on(JobSpec job_spec, const Layout& layout) {
  for (const std::string& o : layout.overrides()) job_spec.overrides.push_back(o);
  return job_spec;
}

Outcome alone(const JobSpec& job_spec, int steps) {
  const auto outcomes = run(job_spec, 1, train(steps));
  REQUIRE_MESSAGE(outcomes[0].code == PLAIT_OK, outcomes[0].error);
  return outcomes[0];
}

std::mt19937 seeded() {
  const char* given = std::getenv("PLAIT_TEST_SEED");
  const uint32_t seed =
      given ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  MESSAGE("PLAIT_TEST_SEED=" << seed);
  return std::mt19937(seed);
}

bool try_all() { return std::getenv("PLAIT_TEST_ALL") != nullptr; }

}  // namespace parallel

// Devices that work by themselves: the device `async` of the tests gives the bits of `reference`,
// whose kernels it runs, under every layout.
#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr int kSteps = 6;

std::vector<Outcome> on_device(JobSpec job_spec, const Layout& layout, const char* device,
                               const std::string& backend = "auto") {
  job_spec.overrides = layout.overrides();
  job_spec.overrides.push_back("topology.backend=" + backend);
  job_spec.overrides.push_back(std::string("run.device=") + device);
  if (std::string(device) == "async") {
    job_spec.overrides.push_back("device.pinned_only=true");
    job_spec.plugins.push_back(ASYNC_DEVICE);
  }
  return run(job_spec, layout.ranks(), train(kSteps));
}

void check_layout(const JobSpec& job_spec, const Layout& layout,
                  const std::string& backend = "auto") {
  CAPTURE(layout.text());
  const auto expected = on_device(job_spec, layout, "reference"),
             got = on_device(job_spec, layout, "async", backend);
  for (const auto* all : {&expected, &got})
    for (const Outcome& o : *all) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  for (const Outcome& o : got) {
    check_equal(o, expected[0]);
    CHECK(o.arena == o.planned);
  }
}

TEST_SUITE("devices") {
  TEST_CASE("replicas, ZeRO and tensor parallelism on a device that works by itself") {
    const Folder folder;
    const JobSpec job_spec{model(folder), {}, {}, {}};
    check_layout(job_spec, {1, 1, 1, 0, "1f1b", 1, 16});
    check_layout(job_spec, {1, 1, 1, 0, "1f1b", 1, 4});
    for (int zero = 0; zero <= 3; ++zero) {
      check_layout(job_spec, {1, 2, 1, zero, "1f1b", 1, 8});
      check_layout(job_spec, {1, 2, 1, zero, "1f1b", 1, 2});
    }
    check_layout(job_spec, {1, 1, 2, 0, "1f1b", 1, 4});
    check_layout(job_spec, {1, 2, 2, 1, "1f1b", 1, 4, "layer"});
  }

  TEST_CASE("a vocabulary that tensor ranks share, on a device that works by itself") {
    const Folder folder;
    check_layout({vocabulary_model(folder, 13), {}, {}, {}}, {1, 2, 2, 3, "1f1b", 1, 4});
  }

  TEST_CASE("pipelines on a device that works by itself") {
    const Folder folder;
    const JobSpec job_spec{deep_model(folder), {}, {}, {}};
    for (const char* schedule : {"1f1b", "gpipe", "zero_bubble"})
      check_layout(job_spec, {2, 1, 1, 0, schedule, 1, 4});
    check_layout(job_spec, {2, 1, 1, 0, "interleaved", 2, 4});
    check_layout(job_spec, {2, 2, 1, 1, "1f1b", 1, 2});
    check_layout(job_spec, {2, 1, 2, 0, "zero_bubble", 1, 4});
  }

  TEST_CASE("a backend for host memory serves a device that has memory of its own") {
    const Folder folder;
    const JobSpec job_spec{model(folder), {}, {}, {}};
    for (int zero = 0; zero <= 3; ++zero)
      check_layout(job_spec, {1, 2, 1, zero, "1f1b", 1, 4}, "threads");
    check_layout(job_spec, {1, 2, 2, 1, "1f1b", 1, 4, "layer"}, "threads");
    check_layout({deep_model(folder), {}, {}, {}}, {2, 2, 1, 1, "1f1b", 1, 2}, "threads");
    check_layout({vocabulary_model(folder, 13), {}, {}, {}}, {1, 2, 2, 3, "1f1b", 1, 4}, "threads");
  }

  TEST_CASE("a rank that is lost ends the others though their devices wait for it") {
    const Folder folder;
    JobSpec job_spec{model(folder), {}, {}, {}};
    job_spec.overrides = Layout{1, 2, 1, 0, "1f1b", 1, 8}.overrides();
    for (const char* key : {"run.device=async", "device.pinned_only=true"})
      job_spec.overrides.emplace_back(key);
    job_spec.plugins.push_back(ASYNC_DEVICE);
    const auto all = run(job_spec, 2, [](uint32_t rank, plait::Session& session, Outcome&) {
      session.step();
      if (rank == 1) return;  // leaves, while the other waits inside a graph
      for (int i = 0; i < 3; ++i) session.step();
    });
    CHECK(all[0].code == PLAIT_ERR_PEER);
    CHECK(all[0].error.find("rank 1") != std::string::npos);
    CHECK(all[1].code == PLAIT_OK);
  }
}

}  // namespace

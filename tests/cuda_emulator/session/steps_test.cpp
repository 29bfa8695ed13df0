// What a step costs the host on a GPU: no allocation, a fixed number of calls of the driver; and
// that the device's memory is what the plan says.
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cuda_emulator/session/allocations.hpp"
#include "tests/cuda_emulator/session/host.hpp"

using namespace cuda_emulator;

namespace {

using Calls = std::map<std::string, uint64_t>;
Calls calls_so_far() {
  Calls calls;
  emulator_calls(
      [](void* to, const char* name, uint64_t n) { (*static_cast<Calls*>(to))[name] = n; }, &calls);
  return calls;
}

// Calls of the driver in one step, but for those that only make the context current. The host asks
// for events as often as it likes, which is counted apart.
struct OfStep {
  Calls made;
  uint64_t queries = 0;
};
OfStep calls_of_step(OnGpu& on) {
  Calls before = calls_so_far();
  OfStep step;
  on.session.step();
  for (const auto& [name, n] : calls_so_far())
    if (name == "cuEventQuery")
      step.queries = n - before[name];
    else if (n > before[name] && name != "cuCtxGetCurrent" && name != "cuCtxSetCurrent")
      step.made[name] = n - before[name];
  return step;
}

std::string text_of(const Calls& calls) {
  std::string text;
  for (const auto& [name, n] : calls) text += name + " " + std::to_string(n) + "\n";
  return text;
}

}  // namespace

TEST_CASE("a step after the first allocates nothing") {
  if (!counts_allocations()) return;
  for (const std::vector<std::string>& keys : {std::vector<std::string>{},
                                               {"batch.micro=4"},
                                               {"precision.compute=bf16"},
                                               {"device.graphs=false"}}) {
    CAPTURE(keys.size());
    OnGpu on(keys);
    on.session.step();
    on.session.step();
    const Counted counted;
    for (int i = 0; i < 20; ++i) on.session.step();  // the order of samples is made anew twice
    CHECK(counted.text() == "0");
  }
}

TEST_CASE("the count sees allocations") {
  if (!counts_allocations()) return;
  OnGpu on;
  on.session.step();
  const Counted counted;
  on.session.describe();
  CHECK(counted.text() != "0");
}

TEST_CASE("each step makes the same few calls of the driver: one graph, a copy for each input") {
  struct {
    std::vector<std::string> keys;
    uint64_t graphs, uploads;
  } const cases[] = {{{}, 1, 6}, {{"batch.micro=4"}, 4, 14}, {{"batch.micro=6"}, 3, 10}};
  for (const auto& c : cases) {
    CAPTURE(c.keys.size());
    OnGpu on(c.keys);
    on.session.step();
    on.session.step();
    const Calls calls = calls_of_step(on).made;
    CAPTURE(text_of(calls));
    CHECK(calls.at("cuGraphLaunch") == c.graphs);
    CHECK(calls.at("cuMemcpyHtoDAsync") == c.uploads);
    CHECK(calls.at("cuMemcpyDtoHAsync") == 1);  // the results
    CHECK(calls.at("cuStreamSynchronize") == 1);
    for (const char* none : {"cuLaunchKernel", "cuMemAlloc", "cuMemHostAlloc", "cuModuleLoadData",
                             "cuGraphInstantiate", "cuEventCreate"})
      CHECK(!calls.contains(none));
    CHECK(calls.at("cuEventRecord") <= 4 + 2 * c.graphs);
    CHECK(calls.size() == 5);
    for (int i = 0; i < 12; ++i) {
      const OfStep next = calls_of_step(on);
      CHECK(text_of(next.made) == text_of(calls));
      CHECK(next.queries <= 4 + 2 * c.graphs);
    }
  }
}

TEST_CASE("the device's memory is what the plan says, to the byte") {
  const uint64_t before = emulator_memory();
  REQUIRE(before == 0);
  for (const std::vector<std::string>& keys : {std::vector<std::string>{},
                                               {"batch.micro=4"},
                                               {"precision.compute=bf16"},
                                               {"optimizer.type=muon"}}) {
    CAPTURE(keys.size());
    OnGpu on(keys);
    const auto plan = nlohmann::json::parse(on.plan.describe());
    const auto session = nlohmann::json::parse(on.session.describe());
    const uint64_t planned = plan.at("memory").at("arena");
    CHECK(emulator_memory() == planned);
    CHECK(session.at("arena_bytes") == planned);
    for (int i = 0; i < 3; ++i) on.session.step();
    std::vector<float> out(4 * 10), x(4 * 16, 0.5F);
    const plait::Feed feeds[] = {{"x", std::span<const float>(x), {4, 16}}};
    on.session.predict(feeds, "output", std::span<float>(out));
    CHECK(emulator_memory() == planned);
  }
  CHECK(emulator_memory() == 0);
}

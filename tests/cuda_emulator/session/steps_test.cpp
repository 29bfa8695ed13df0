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

using Keys = std::vector<std::string>;
using Calls = std::map<std::string, uint64_t>;

// A sample is six tokens of sixteen channels.
Keys with_attention(Keys more) {
  more.insert(more.end(),
              {"data.train.shape=[6, 16]",
               "model.layers=[{type = \"decoder_block\", name = \"h\", repeat = 2, heads = 2, "
               "norm = \"rms_norm\", mlp = \"swiglu\", ffn = 24}, {type = \"flatten\"}, "
               "{type = \"linear\", name = \"head\", out = 10}]"});
  return more;
}
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
  for (const Keys& keys :
       {Keys{},
        {"batch.micro=4"},
        {"precision.compute=bf16"},
        {"device.graphs=false"},
        with_attention({"precision.compute=bf16", "precision.library_attention=true"})}) {
    CAPTURE(keys.size());
    OnGpu on(keys);
    on.session.step();
    on.session.step();
    const int steps = keys.size() > 2 ? 2 : 20;  // attention takes time
    const Counted counted;
    for (int i = 0; i < steps; ++i) on.session.step();  // of 20 two begin a new order of samples
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

TEST_CASE("each step makes the same few calls of the driver: one graph, a copy for its inputs") {
  struct {
    Keys keys;
    uint64_t graphs, uploads;  // one for each micro-batch, two of numbers
  } const cases[] = {{{}, 1, 3}, {{"batch.micro=4"}, 4, 5}, {{"batch.micro=6"}, 3, 4}};
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
  for (const Keys& keys :
       {Keys{}, {"batch.micro=4"}, {"precision.compute=bf16"}, {"optimizer.type=muon"}}) {
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

TEST_CASE("steps have equal bits: twice, call by call, and whatever is recomputed") {
  struct {
    Keys keys;
    int steps;
  } const cases[] = {{{"run.steps=200"}, 200},
                     {{"run.steps=200", "precision.compute=bf16"}, 30},
                     {with_attention({}), 2},
                     {with_attention({"precision.compute=bf16"}), 2}};
  for (const auto& c : cases) {
    std::vector<double> first;
    for (const std::string other : {"run.seed=3", "run.seed=3", "device.graphs=false",
                                    "topology.recompute=none", "topology.recompute=layer"}) {
      CAPTURE(other);
      Keys keys = c.keys;
      keys.emplace_back(other);
      OnGpu on(keys);
      std::vector<double> losses;
      for (int i = 0; i < c.steps; ++i) losses.push_back(on.session.step().loss);
      if (first.empty()) first = losses;
      CHECK(losses == first);
      CHECK(losses.back() != losses.front());
    }
  }
}

TEST_CASE("an error of the GPU names the launch that it may be of") {
  for (const char* fault : {"cuEventQuery:1:700", "cuStreamSynchronize:1:700"}) {
    CAPTURE(fault);
    {
      OnGpu on;
      on.session.step();
      emulator_configure(fault, 1);
      std::string error;
      try {
        on.session.step();
      } catch (const plait::HostError& e) {
        error = e.what();
      }
      CAPTURE(error);
      CHECK(error.find("program ") != std::string::npos);
      CHECK(error.find(" of this session) failed in ") != std::string::npos);
      CHECK(error.find("[cuda] work on the GPU failed: an illegal memory access") !=
            std::string::npos);
    }
    emulator_configure(nullptr, 1);
  }
}

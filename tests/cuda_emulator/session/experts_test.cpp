// Training of a model with experts, and of one with AdaLoRA, on a GPU beside the CPU.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/cuda_emulator/session/host.hpp"

using namespace cuda_emulator;

namespace {

using Keys = std::vector<std::string>;

constexpr int kSteps = 8, kAdaloraSteps = 14;

// A sample is three tokens of sixteen channels.
const Keys kExperts = {
    "data.train.shape=[3, 16]",
    "model.layers=[{type = \"experts\", name = \"mix\", experts = 5, top_k = 2, mlp = \"swiglu\", "
    "ffn = 24, std = 0.3, balance = 0.1}, {type = \"flatten\"}, {type = \"linear\", name = "
    "\"head\", out = 10}]"};
const Keys kAdalora = {
    "run.steps=" + std::to_string(kAdaloraSteps),
    "model.adapters=[{type = \"adalora\", match = [\"*.weight\"], init_rank = 4, target_rank = 2, "
    "alpha = 4.0, tinit = 2, tfinal = 4, delta_t = 2}]"};

Keys on(const std::string& device, Keys keys, const Keys& more = {}) {
  keys.push_back("run.device=" + device);
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

std::vector<double> losses(OnGpu& of, int steps = kSteps) {
  std::vector<double> all;
  for (int i = 0; i < steps; ++i) all.push_back(of.session.step().loss);
  return all;
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                 double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(found[i] - expected[i]) <= tolerance * std::abs(expected[i]));
  }
  CHECK(expected.back() < expected.front());
}

// op/kernel, of all programs.
std::set<std::string> kernels_of(const OnGpu& of) {
  std::set<std::string> names;
  const auto plan = nlohmann::json::parse(of.plan.describe());
  for (const auto& program : plan.at("programs"))
    for (const auto& call : program.at("kernels"))
      if (call.contains("kernel"))
        names.insert(call.at("op").get<std::string>() + "/" + call.at("kernel").get<std::string>());
  return names;
}

std::vector<float> singular_values(OnGpu& of) {
  std::vector<float> all;
  for (const char* layer : {"fc", "head"}) {
    std::vector<float> e(4);
    of.session.read(std::string("model.") + layer + ".weight.adalora.e", std::span<float>(e));
    all.insert(all.end(), e.begin(), e.end());
  }
  return all;
}

}  // namespace

TEST_CASE("a model with experts learns on a GPU what it learns on the CPU") {
  // Of 16 bits a quarter of the distance of neighbours at 1: roundings differ; a loss is a mean.
  struct {
    Keys keys;
    const char* kernel;
    double tolerance;
  } const cases[] = {{{}, "tiles", 1e-6},
                     {{"batch.micro=4"}, "tiles", 1e-6},
                     {{"precision.compute=bf16"}, "tensor_cores", 0x1p-9},
                     {{"precision.compute=f16"}, "tensor_cores", 0x1p-12},
                     {{"precision.compute=f64"}, "plain", 1e-14}};
  for (const auto& c : cases) {
    CAPTURE(c.keys);
    OnGpu gpu(on("cuda", kExperts, c.keys)), again(on("cuda", kExperts, c.keys)),
        cpu(on("cpu", kExperts, c.keys));
    const auto names = kernels_of(gpu);
    CHECK(names.contains(std::string("grouped_matmul/") + c.kernel));
    CHECK(names.contains(std::string("grouped_matmul_grad/") + c.kernel));
    const auto found = losses(gpu);
    CHECK(found == losses(again));
    check_close(found, losses(cpu), c.tolerance);
  }
}

TEST_CASE("more experts than rows: most have none") {
  const Keys few = {"model.layers[0].experts=90", "batch.global=2"};
  OnGpu gpu(on("cuda", kExperts, few)), cpu(on("cpu", kExperts, few));
  const auto found = losses(gpu), expected = losses(cpu);
  for (size_t i = 0; i < found.size(); ++i)
    CHECK(std::abs(found[i] - expected[i]) <= 1e-5 * std::abs(expected[i]));
}

TEST_CASE("AdaLoRA lets the same ranks go on a GPU as on a CPU") {
  OnGpu gpu(on("cuda", kAdalora)), again(on("cuda", kAdalora)), cpu(on("cpu", kAdalora));
  const auto found = losses(gpu, kAdaloraSteps);
  CHECK(found == losses(again, kAdaloraSteps));
  check_close(found, losses(cpu, kAdaloraSteps), 1e-5);
  const auto values = singular_values(gpu), expected = singular_values(cpu);
  REQUIRE(values.size() == expected.size());
  CHECK(std::count(values.begin(), values.end(), 0.0F) == 4);
  for (size_t i = 0; i < values.size(); ++i) CHECK((values[i] == 0) == (expected[i] == 0));
}

// Transformers of every family against Hugging Face's library in float64
// (tests/golden/golden_families.py): loss, logits, and the gradient of every parameter.
#include <cmath>

#include "tests/unit/host/families.hpp"
#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

using host::all_families;
using host::experiment;
using host::families;
using host::Family;
using host::Run;
using plait::test::GoldenFile;

namespace {

double greatest(const std::vector<double>& v) {
  double most = 0;
  for (const double x : v) most = std::max(most, std::abs(x));
  return most;
}

// Elements of `found` differ from `expected` by at most tolerance times the greatest of them.
// Biases of keys have no gradient but rounding.
void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                 double tolerance) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::abs(found[i] - expected[i]));
  CHECK(worst <= tolerance * std::max(greatest(expected), 1e-6));
}

// Elements differ by at most `most`.
void check_within(const std::vector<double>& found, const std::vector<double>& expected,
                  double most) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i)
    worst = std::max(worst, std::abs(found[i] - expected[i]));
  CHECK(worst <= most);
}

// T: of the plan's outputs and parameters.
template <class T = double>
std::vector<double> predict(const Run& run, const GoldenFile& golden) {
  std::vector<int32_t> ids;
  for (const double id : golden.values("ids")) ids.push_back(static_cast<int32_t>(id));
  int64_t shape[2] = {2, 24};
  plait_dl_tensor x{ids.data(), {1, 0}, 2, {0, 32, 1}, shape, nullptr, 0};
  const plait_feed feed{sizeof(plait_feed), "ids", &x};
  std::vector<T> logits(2 * 24 * 96);
  host::check(plait_session_predict(run.session(), &feed, 1, "output", logits.data(),
                                    logits.size() * sizeof(T)));
  return {logits.begin(), logits.end()};
}

template <class T = double>
std::vector<double> parameter(const Run& run, const std::string& name, size_t n) {
  std::vector<T> values(n);
  host::check(
      plait_session_read(run.session(), ("model." + name).c_str(), values.data(), n * sizeof(T)));
  return {values.begin(), values.end()};
}

}  // namespace

TEST_SUITE_BEGIN("models");

TEST_CASE("every family has the loss, logits and gradients of the library") {
  const GoldenFile golden("families.safetensors");
  for (const Family& family : all_families())
    for (const std::string device : {"reference", "cpu"}) {
      const std::string name = family.name;
      CAPTURE(name);
      CAPTURE(device);
      const Run run(experiment(family, golden.path(), device, "f64"));
      // The library's tables of cos and sin are f32, rounded elsewhere by one unit at times.
      check_close(predict(run, golden), golden.values(name + ".logits"), 1e-6);
      CHECK(run.step().loss == doctest::Approx(golden.values(name + ".loss")[0]).epsilon(1e-7));
      for (const std::string& p : golden.names(name + "/")) {
        CAPTURE(p);
        const auto before = golden.values(name + "/" + p);
        auto gradient = parameter(run, p, before.size());  // one step at rate 1 subtracts it
        for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = before[i] - gradient[i];
        check_close(gradient, golden.values(name + ".grad/" + p), 2e-6);
      }
    }
}

// transformer.md says how far autocast of the library is off: 2e-2 to 8e-2, 2e-3, 2e-2 to 4e-2.
TEST_CASE("every family in bf16 and f16 is near the library in float64") {
  constexpr double kLogits = 0.15, kLoss = 5e-3, kGradients = 8e-2;
  const GoldenFile golden("families.safetensors");
  const std::pair<const char*, const char*> cases[] = {
      {"reference", "bf16"}, {"cpu", "bf16"}, {"cpu", "f16"}};
  for (const Family& family : families())
    for (const auto& one : cases)
      for (const char* residual : {"f32", "compute"}) {
        const auto device = one.first, compute = one.second;
        const std::string name = family.name,
                          toml = experiment(family, golden.path(), device, compute);
        CAPTURE(name);
        CAPTURE(device);
        CAPTURE(compute);
        CAPTURE(residual);
        const Run run(toml, "", PLAIT_RESUME_NEVER,
                      {("precision.residual=\"" + std::string(residual) + "\"").c_str()});
        check_within(predict<float>(run, golden), golden.values(name + ".logits"), kLogits);
        CHECK(std::abs(run.step().loss - golden.values(name + ".loss")[0]) <= kLoss);
        for (const std::string& p : golden.names(name + "/")) {
          CAPTURE(p);
          const auto before = golden.values(name + "/" + p);
          auto gradient = parameter<float>(run, p, before.size());
          for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = before[i] - gradient[i];
          const auto expected = golden.values(name + ".grad/" + p);
          // Biases of keys have no gradient but rounding.
          if (greatest(expected) > 1e-4) check_close(gradient, expected, kGradients);
        }
      }
}

TEST_CASE("what cannot be built names the layer, the option and the way out") {
  const GoldenFile golden("families.safetensors");
  const std::string toml = experiment(families()[1], golden.path(), "reference", "f32");
  const auto refusal = [&](const char* override_) {
    return host::failure_of([&] { const Run run(toml, "", PLAIT_RESUME_NEVER, {override_}); }).text;
  };
  const std::pair<const char*, const char*> cases[] = {
      {"model.layers[1].kv_heads=3", "heads is 4 and kv_heads 3, expected a divisor of heads"},
      {"model.layers[1].heads=6", "heads is 6, expected a divisor of the width, 32"},
      {"model.layers[1].rope_share=0.1", "rope_share selects 0 of 8 channels"},
      {"model.layers[1].rope_original=0", "which needs rope_original, the length of the training"},
      {"model.layers[1].rope_scaling=\"longrope\"", "rope_long has 0 numbers, expected 4"},
      {"model.layers[1].parallel=\"row\"", "expected string: \"none\" | \"heads\", found \"row\""},
      {"model.layers[0].type=\"positions\"", "unknown key 'vocabulary'"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.first);
    const std::string found = refusal(one.first);
    CAPTURE(found);
    CHECK(found.find(one.second) != std::string::npos);
    CHECK(found.find("model.layers[") != std::string::npos);
  }
}

TEST_CASE("weights are dropped in training and in no evaluation") {
  const GoldenFile golden("families.safetensors");
  const std::string toml = experiment(families()[1], golden.path(), "cpu", "f64");
  const Run plain(toml),
      dropping(toml, "", PLAIT_RESUME_NEVER, {"model.layers[1].attention_dropout=0.3"});
  CHECK(predict(plain, golden) == predict(dropping, golden));
  CHECK(plain.step().loss != dropping.step().loss);
}

TEST_SUITE_END();

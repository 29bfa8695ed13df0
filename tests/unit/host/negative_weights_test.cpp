// Negative weights of samples, such as advantages: a loss is divided by the sum of its weights,
// whatever its sign.
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/host/host.hpp"

using host::Run;

namespace {

constexpr size_t kSamples = 6, kFeatures = 3, kClasses = 4;
constexpr float kMostlyNegative[kSamples] = {-1, 0.5, -2, 0.25, -1.5, 1};

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// x (6, 3), advantage (6) and label (6).
void write_data(const std::string& path) {
  std::string header = R"({"x":{"dtype":"F32","shape":[6,3],"data_offsets":[0,72]},)"
                       R"("advantage":{"dtype":"F32","shape":[6],"data_offsets":[72,96]},)"
                       R"("label":{"dtype":"I32","shape":[6],"data_offsets":[96,120]}})";
  std::string text;
  append(text, static_cast<uint64_t>(header.size()));
  text += header;
  for (size_t i = 0; i < kSamples * kFeatures; ++i)
    append(text, static_cast<float>(std::sin(static_cast<double>(i) + 0.5)));
  for (const float w : kMostlyNegative) append(text, w);
  for (size_t i = 0; i < kSamples; ++i) append(text, static_cast<int32_t>(i % kClasses));
  std::ofstream(path, std::ios::binary) << text;
}

constexpr char kWeighted[] =
    "{type = \"cross_entropy\", from = [\"output\", \"label\", \"advantage\"]}";
constexpr char kPlain[] = "{type = \"mse\", from = [\"narrow\", \"x\"], weight = 0.5}";

struct Outcome {
  plait_step_result step;
  double evaluated;
  std::vector<double> moved;  // by the step, of both weights and biases
};

std::vector<double> parameters(const Run& run) {
  std::vector<double> all;
  const std::pair<const char*, size_t> sizes[] = {{"model.linear1.weight", kFeatures * kFeatures},
                                                  {"model.linear1.bias", kFeatures},
                                                  {"model.linear2.weight", kClasses * kFeatures},
                                                  {"model.linear2.bias", kClasses}};
  for (const auto& [name, n] : sizes) {
    std::vector<double> values(n);
    host::check(plait_session_read(run.session(), name, values.data(), n * sizeof(double)));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

Outcome step(const std::string& losses, int micro = 6, double clip = 0) {
  const host::TempFolder folder;
  write_data(folder / "d.safetensors");
  const Run run(
      "[run]\nthreads = 1\ndevice = \"cpu\"\n[precision]\ncompute = \"f64\"\n[batch]\nglobal = 6\n"
      "micro = " +
      std::to_string(micro) + "\n[data.train]\ntype = \"safetensors\"\npath = \"" +
      (folder / "d.safetensors") +
      "\"\ninput = [\"x\", \"advantage\"]\ntarget = [\"label\"]\n[model]\nlayers = [{type = "
      "\"linear\", out = 3, as = [\"narrow\"]}, {type = \"linear\", out = 4}]\nlosses = [" +
      losses + "]\noptimizer = {type = \"sgd\", learning_rate = 1.0, clip_grad_norm = " +
      std::to_string(clip) + "}\n");
  plait_text* text = nullptr;
  host::check(plait_session_evaluate(run.session(), "train", &text));
  Outcome o{{}, nlohmann::json::parse(host::take(text))["loss"], parameters(run)};
  o.step = run.step();
  const std::vector<double> after = parameters(run);
  for (size_t i = 0; i < after.size(); ++i) o.moved[i] = after[i] - o.moved[i];
  return o;
}

double length(const std::vector<double>& v) {
  double squares = 0;
  for (const double x : v) squares += x * x;
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("weights whose sum is negative: a mean, its gradient, and the length of that") {
  const Outcome whole = step(kWeighted);
  CHECK(whole.step.skipped == 0);
  CHECK(whole.step.loss == doctest::Approx(whole.evaluated).epsilon(1e-12));
  CHECK(whole.step.grad_norm == doctest::Approx(length(whole.moved)).epsilon(1e-12));
  const Outcome parts = step(kWeighted, 2);
  CHECK(parts.step.loss == doctest::Approx(whole.step.loss).epsilon(1e-12));
  CHECK(parts.step.grad_norm == doctest::Approx(whole.step.grad_norm).epsilon(1e-12));
}

TEST_CASE("clipping keeps the direction where the sum of the weights is negative") {
  const Outcome whole = step(kWeighted), clipped = step(kWeighted, 6, 0.125);
  CHECK(clipped.step.grad_norm == doctest::Approx(whole.step.grad_norm).epsilon(1e-12));
  CHECK(length(clipped.moved) == doctest::Approx(0.125).epsilon(1e-5));
  for (size_t i = 0; i < whole.moved.size(); ++i)
    CHECK(clipped.moved[i] * whole.step.grad_norm ==
          doctest::Approx(whole.moved[i] * 0.125).epsilon(1e-4));
}

TEST_CASE("beside a loss that counts every sample, each is divided by its own sum") {
  const std::string both = std::string(kWeighted) + ", " + kPlain;
  const Outcome weighted = step(kWeighted), plain = step(kPlain);
  for (const int micro : {6, 2}) {
    CAPTURE(micro);
    const Outcome o = step(both, micro);
    CHECK(o.step.loss == doctest::Approx(weighted.step.loss + plain.step.loss).epsilon(1e-12));
    CHECK(o.step.loss == doctest::Approx(o.evaluated).epsilon(1e-12));
    for (size_t i = 0; i < o.moved.size(); ++i)
      CHECK(o.moved[i] == doctest::Approx(weighted.moved[i] + plain.moved[i]).epsilon(1e-10));
  }
}

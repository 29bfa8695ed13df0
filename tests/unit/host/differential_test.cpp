// 200 random models, trained for three steps on the cpu and on the reference device: losses, norms,
// an evaluation and every parameter agree within the precision of the element type. PLAIT_TEST_SEED
// and PLAIT_TEST_MODELS select other models.
//
// The tolerance: f32 rounds by 2^-24, and a model amplifies or reduces that error. The
// amplification is measured: the reference runs once more from parameters with errors of a few such
// roundings, and the devices may differ by a multiple of the resulting change.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/unit/host/host.hpp"
#include "tests/unit/host/random_model.hpp"

namespace {

constexpr double kRounding = 0x1p-24;
constexpr int kSteps = 3;

using Closer = void (*)(plait_session*);
using Session = std::unique_ptr<plait_session, Closer>;

Session open(plait_engine* engine, const std::string& toml, const char* device, int threads) {
  const std::string where = std::string("run.device=") + device,
                    many = "run.threads=" + std::to_string(threads);
  const char* overrides[] = {where.c_str(), many.c_str()};
  plait_experiment_options xo{};
  xo.struct_size = sizeof xo;
  xo.overrides = overrides;
  xo.n_overrides = 2;
  plait_experiment* x = nullptr;
  host::check(plait_experiment_parse(engine, toml.c_str(), PLAIT_NTS, "random.toml", &xo, &x));
  const std::unique_ptr<plait_experiment, decltype(&plait_experiment_close)> experiment(
      x, plait_experiment_close);
  plait_plan* p = nullptr;
  host::check(plait_plan_make(x, &p));
  const std::unique_ptr<plait_plan, decltype(&plait_plan_close)> plan(p, plait_plan_close);
  plait_session_options so{};
  so.struct_size = sizeof so;
  so.no_files = 1;
  plait_session* s = nullptr;
  host::check(plait_session_open(p, &so, &s));
  return {s, plait_session_close};
}

struct Parameter {
  std::string name;
  std::vector<float> values;
};

std::vector<Parameter> parameters_of(plait_session* s) {
  plait_text* text = nullptr;
  host::check(plait_session_describe(s, &text));
  const auto described = nlohmann::json::parse(host::take(text));
  std::vector<Parameter> all;
  for (const auto& one : described["parameters"]) {
    size_t n = 1;
    for (const size_t extent : one["shape"]) n *= extent;
    Parameter p{one["name"], std::vector<float>(n)};
    host::check(plait_session_read(s, p.name.c_str(), p.values.data(), n * sizeof(float)));
    all.push_back(std::move(p));
  }
  return all;
}

// The results of a run, by name.
using Trace = std::vector<Parameter>;

Trace train(const Session& session) {
  plait_session* s = session.get();
  Parameter losses{"loss", {}}, norms{"grad_norm", {}};
  for (int i = 0; i < kSteps; ++i) {
    plait_step_result r{};
    r.struct_size = sizeof r;
    host::check(plait_session_step(s, nullptr, 0, &r));
    losses.values.push_back(static_cast<float>(r.loss));
    norms.values.push_back(static_cast<float>(r.grad_norm));
  }
  plait_text* text = nullptr;
  host::check(plait_session_evaluate(s, "train", &text));
  const double evaluated = nlohmann::json::parse(host::take(text))["loss"];
  Trace t = parameters_of(s);
  t.push_back(losses);
  t.push_back(norms);
  t.push_back({"evaluated loss", {static_cast<float>(evaluated)}});
  return t;
}

// Changes every parameter by four roundings, up or down.
void disturb(const Session& session) {
  uint64_t state = 1;
  for (Parameter& p : parameters_of(session.get())) {
    for (float& v : p.values) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double up = state >> 63 ? 1 : -1;
      v = static_cast<float>(v + up * 4 * kRounding * (std::abs(v) + 0.1));
    }
    host::check(plait_session_write(session.get(), p.name.c_str(), p.values.data(),
                                    p.values.size() * sizeof(float)));
  }
}

// Largest difference of two tensors; relative for values above 1.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const double d = std::abs(double{a[i]} - b[i]) / std::max(1.0, std::abs(double{b[i]}));
    most = std::max(most, std::isfinite(d) ? d : 1e30);
  }
  return most;
}

// Elements that differ by more than rounding. An optimizer that uses only the sign of a gradient
// takes the opposite direction where the gradient is almost 0; that must stay rare.
bool few_flips(const Trace& a, const Trace& b) {
  for (size_t k = 0; k < a.size(); ++k) {
    size_t flips = 0;
    for (size_t i = 0; i < a[k].values.size(); ++i)
      flips += std::abs(a[k].values[i] - b[k].values[i]) > 2e-3;
    if (flips * 50 > a[k].values.size()) return false;
  }
  return true;
}

// The names that disagree; "" if none do.
std::string disagreement(const host::RandomModel& model, const Trace& cpu, const Trace& reference,
                         const Trace& disturbed) {
  double passed_on = 0;
  for (size_t k = 0; k < reference.size(); ++k)
    passed_on = std::max(passed_on, distance(disturbed[k].values, reference[k].values));
  const double allowed = 16 * (passed_on + kRounding * (1 + model.layers));
  for (size_t k = 0; k < cpu.size(); ++k) {
    const double found = distance(cpu[k].values, reference[k].values);
    if (found > allowed && !(model.sign_like && few_flips(cpu, reference)))
      return cpu[k].name + " is off by " + std::to_string(found) + ", allowed are " +
             std::to_string(allowed);
  }
  return "";
}

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Bench {
  plait_engine* engine = host::new_engine();
  ~Bench() { plait_engine_close(engine); }

  // `wrong` is a factor for the first element of each parameter of the cpu's run.
  std::string compare(uint64_t seed, float wrong = 1) const {
    const host::RandomModel model = host::random_model(seed);
    const Session cpu = open(engine, model.toml, "cpu", seed % 2 ? 1 : 2),
                  reference = open(engine, model.toml, "reference", 1),
                  third = open(engine, model.toml, "reference", 1);
    if (wrong != 1)
      for (Parameter& p : parameters_of(cpu.get())) {
        p.values[0] *= wrong;
        host::check(plait_session_write(cpu.get(), p.name.c_str(), p.values.data(),
                                        p.values.size() * sizeof(float)));
      }
    disturb(third);
    return disagreement(model, train(cpu), train(reference), train(third));
  }
};

}  // namespace

TEST_SUITE_BEGIN("models");

TEST_CASE("random models: the cpu device agrees with the reference") {
  const Bench bench;
  const uint64_t first = number_from("PLAIT_TEST_SEED", 1);
  const uint64_t n = number_from("PLAIT_TEST_MODELS", std::getenv("PLAIT_TEST_SEED") ? 1 : 200);
  for (uint64_t seed = first; seed < first + n; ++seed) {
    std::string wrong;
    try {
      wrong = bench.compare(seed);
    } catch (const host::Failure& f) {
      wrong = f.text;
    }
    if (!wrong.empty())
      FAIL_CHECK("PLAIT_TEST_SEED=" << seed << ": " << wrong << "\n"
                                    << host::random_model(seed).toml);
  }
}

TEST_CASE("random models: one weight that is off by a thousandth is found") {
  const Bench bench;
  int found = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) found += !bench.compare(seed, 1.001f).empty();
  CHECK(found >= 25);
}

TEST_SUITE_END();

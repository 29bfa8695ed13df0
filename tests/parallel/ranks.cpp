#include "tests/parallel/ranks.hpp"
#include "kit/half.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/threads.hpp"

namespace parallel {

namespace {

// A rank's engine and plan.
struct Planned {
  Planned(const JobSpec& job_spec, const std::string& rendezvous, uint32_t rank, uint32_t ranks)
      : engine(settings(job_spec, rank)),
        plan(experiment(job_spec, engine, rank), job(job_spec, rendezvous, rank, ranks)) {}

  plait::Engine engine;
  plait::Plan plan;

 private:
  static plait::EngineSettings settings(const JobSpec& job_spec, uint32_t rank) {
    plait::EngineSettings s;
    s.keep_plugins_loaded = true;
    const auto own = job_spec.plugins_of_rank.find(rank);
    s.plugin_paths = own != job_spec.plugins_of_rank.end() ? own->second : job_spec.plugins;
    return s;
  }
  static plait::Experiment experiment(const JobSpec& job_spec, const plait::Engine& engine,
                                      uint32_t rank) {
    std::vector<std::string> overrides = job_spec.overrides;
    if (const auto own = job_spec.of_rank.find(rank); own != job_spec.of_rank.end())
      overrides.insert(overrides.end(), own->second.begin(), own->second.end());
    return plait::Experiment::parse(engine, job_spec.toml, "test.toml", overrides);
  }
  static plait::Job job(const JobSpec& job_spec, const std::string& rendezvous, uint32_t rank,
                        uint32_t ranks) {
    plait::JobSettings s;
    s.rank = rank;
    s.size = ranks;
    s.rendezvous = ranks > 1 ? "file:" + rendezvous : "";
    if (job_spec.job) job_spec.job(rank, s);
    return plait::Job(s);
  }
};

nlohmann::json memory_of(const plait::Plan& plan) {
  return nlohmann::json::parse(plan.describe())["memory"];
}

void run_rank(const JobSpec& job_spec, const std::string& rendezvous, uint32_t rank, uint32_t ranks,
              const Body& body, Outcome& outcome) {
  try {
    const Planned planned(job_spec, rendezvous, rank, ranks);
    plait::SessionSettings settings;
    settings.no_files = true;
    if (job_spec.settings) settings = job_spec.settings(rank);
    plait::Session session(planned.plan, settings);
    const auto memory = memory_of(planned.plan);
    outcome.planned = memory["arena"];
    outcome.planned_gradients = memory["gradients"];
    const auto described = nlohmann::json::parse(session.describe());
    outcome.arena = described["arena_bytes"];
    outcome.shared = described["shared_bytes"];
    body(rank, session, outcome);
  } catch (const plait::HostError& e) {
    outcome.code = e.code();
    outcome.error = e.what();
  }
}

}  // namespace

std::vector<Outcome> run(const JobSpec& job_spec, uint32_t ranks, const Body& body) {
  const Folder folder;
  std::vector<Outcome> outcomes(ranks);
  plait::test::on_threads(static_cast<int>(ranks), [&](int rank) {
    const auto r = static_cast<uint32_t>(rank);
    run_rank(job_spec, folder / "rendezvous", r, ranks, body, outcomes[r]);
  });
  return outcomes;
}

std::string plan_of(const JobSpec& job_spec, uint32_t ranks) {
  return Planned(job_spec, "/nobody", 0, ranks).plan.describe();
}

Weights weights_of(const plait::Session& session) {
  Weights weights;
  const auto facts = nlohmann::json::parse(session.describe());
  for (const auto& p : facts["parameters"]) {
    size_t elements = 1;
    for (const auto& d : p["shape"]) elements *= d.get<size_t>();
    const auto name = p["name"].get<std::string>();
    std::vector<double>& values = weights[name];
    values.resize(elements);
    if (p["dtype"] == "f64") {
      session.read(name, std::span<double>(values));
    } else if (p["dtype"] == "bf16" || p["dtype"] == "f16") {
      std::vector<uint16_t> bits(elements);
      session.read(name, std::span<uint16_t>(bits));
      std::transform(bits.begin(), bits.end(), values.begin(),
                     p["dtype"] == "bf16" ? plait::kit::from_bf16 : plait::kit::from_f16);
    } else {
      std::vector<float> narrow(elements);
      session.read(name, std::span<float>(narrow));
      std::copy(narrow.begin(), narrow.end(), values.begin());
    }
  }
  return weights;
}

double loss_of_evaluation(plait::Session& session) {
  return nlohmann::json::parse(session.evaluate("eval")).at("loss").get<double>();
}

Body train(int n) {
  return [n](uint32_t, plait::Session& session, Outcome& outcome) {
    outcome.initial = weights_of(session);
    for (int i = 0; i < n; ++i) {
      const plait_step_result r = session.step();
      outcome.losses.push_back(r.loss);
      outcome.norms.push_back(r.grad_norm);
      outcome.samples = r.samples;
    }
    outcome.weights = weights_of(session);
    auto evaluation = nlohmann::json::parse(session.evaluate("eval"));
    evaluation.erase("seconds");
    outcome.evaluation = evaluation.dump();
  };
}

void Difference::include(const Difference& other) {
  losses = std::max(losses, other.losses);
  norms = std::max(norms, other.norms);
  weights = std::max(weights, other.weights);
}

namespace {

// Not a number is never near.
double apart(double a, double b) {
  const double difference = std::abs(a - b);
  return difference == 0 ? 0 : difference / std::abs(b);
}

double largest_apart(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    const double one = apart(a[i], b[i]);
    CHECK(one <= tolerance);
    worst = std::max(worst, one);
  }
  return worst;
}

double largest_apart(const Weights& a, const Weights& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (const auto& one : b) {
    CAPTURE(one.first);
    const std::vector<double>&own = a.at(one.first), &expected = one.second;
    REQUIRE(own.size() == expected.size());
    double size = 0;
    for (const double value : expected) size = std::max(size, std::abs(value));
    size_t wrong = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      const double difference = std::abs(own[i] - expected[i]);
      if (difference == 0) continue;
      if (!(difference <= tolerance * size)) ++wrong;
      worst = std::max(worst, difference / size);
    }
    CHECK(wrong == 0);
  }
  return worst;
}

}  // namespace

Difference check_metrics(const Outcome& got, const Outcome& expected, double tolerance) {
  return {largest_apart(got.losses, expected.losses, tolerance),
          largest_apart(got.norms, expected.norms, tolerance), 0};
}

Difference check_same(const std::vector<Outcome>& got, const Outcome& expected, double tolerance) {
  for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  if (!expected.initial.empty()) CHECK(got[0].initial == expected.initial);
  Difference d = check_metrics(got[0], expected, tolerance);
  d.weights = largest_apart(got[0].weights, expected.weights, tolerance);
  CHECK(got[0].samples == expected.samples);
  const auto a = nlohmann::json::parse(got[0].evaluation),
             b = nlohmann::json::parse(expected.evaluation);
  CHECK(a["samples"] == b["samples"]);
  CHECK(apart(a["loss"], b["loss"]) <= tolerance);
  REQUIRE(!b["metrics"].empty());
  for (const auto& [name, value] : b["metrics"].items())
    CHECK(apart(a["metrics"].at(name), value) <= tolerance);
  for (const Outcome& o : got) {
    check_equal(o, got[0]);
    CHECK(o.arena == o.planned);
  }
  return d;
}

void check_equal(const Outcome& a, const Outcome& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.norms == b.norms);
  CHECK(a.initial == b.initial);
  CHECK(a.weights == b.weights);
  CHECK(a.evaluation == b.evaluation);
}

}  // namespace parallel

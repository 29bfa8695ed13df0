// Terms of the loss that layers and PEFT methods add: the same as losses written by hand, on every
// kind of grid.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

std::string replaced(std::string text, const std::string& before, const std::string& now) {
  const size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  return text.replace(at, before.size(), now);
}

const std::string kFirst = "name = \"first\"\nout = 16\nparallel = \"column\"\n",
                  kNorm = "type = \"layer_norm\"\n", kHead = "parallel = \"row\"\n",
                  kLoss = "[loss]\ntype = \"cross_entropy\"\n";

// The term counts less than any loss, which its value does not show.
constexpr char kHalf[] = "times = 0.5\n";

std::string layer(const std::string& type, double factor) {
  return "[[model.layers]]\ntype = \"" + type + "\"\nfactor = " + std::to_string(factor) + "\n";
}

JobSpec job(const std::string& toml) {
  JobSpec job_spec{toml, {"batch.eval=8", "precision.compute=f64", "batch.micro=4"}, {}, {}};
  job_spec.plugins = {LOSS_TERMS};
  return job_spec;
}

// Losses, norms and weights of so many steps; of the last one its metrics.
Body steps(int n) {
  return [n](uint32_t, plait::Session& session, Outcome& o) {
    o.initial = weights_of(session);
    for (int i = 0; i < n; ++i) {
      const plait_step_result r = session.step();
      o.losses.push_back(r.loss);
      o.norms.push_back(r.grad_norm);
      nlohmann::json metrics = nlohmann::json::object();
      for (uint32_t k = 0; k < r.n_metrics; ++k) metrics[r.metrics[k].name] = r.metrics[k].value;
      o.evaluation = metrics.dump();
    }
    o.weights = weights_of(session);
  };
}

double metric(const Outcome& o, const std::string& name) {
  return nlohmann::json::parse(o.evaluation).at(name).get<double>();
}

constexpr int kSteps = 8;

// On one rank, then on the others.
Outcome check_grids(const std::string& toml, const std::string& name) {
  const Outcome expected = run(job(toml), 1, steps(kSteps))[0];
  REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
  for (const Layout& layout : few_layouts()) {
    CAPTURE(layout.text());
    const auto got = run(on(job(toml), layout), layout.ranks(), steps(kSteps));
    for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
    check_metrics(got[0], expected, 1e-11);
    CHECK(metric(got[0], name) == doctest::Approx(metric(expected, name)).epsilon(1e-11));
    CHECK(got[0].arena == got[0].planned);
  }
  return expected;
}

}  // namespace

TEST_SUITE("loss_terms") {
  // Two layers add to one term. Labels have other weights than samples; the weights of the energy
  // are half the weights of samples.
  TEST_CASE("terms of layers are losses") {
    const Folder folder;
    const std::string plain = model(folder, 3);
    const std::string watched = replaced(
                          replaced(plain, kFirst, kFirst + layer("test.watch", 0.3) + kHalf), kNorm,
                          kNorm + layer("test.watch", 0.02) + kHalf),
                      named = replaced(replaced(plain, kFirst, kFirst + "as = [\"one\"]\n"), kNorm,
                                       kNorm + "as = [\"two\"]\n");
    for (const std::string type : {"cross_entropy", "test.energy"}) {
      CAPTURE(type);
      const std::string own = "[[losses]]\ntype = \"" + type + "\"\n";
      const std::string by_hand =
          replaced(named, kLoss,
                   own +
                       "name = \"own\"\n[[losses]]\ntype = \"test.energy\"\nname = \"first\"\n"
                       "from = [\"one\"]\nweight = 0.3\n[[losses]]\ntype = \"test.energy\"\n"
                       "name = \"second\"\nfrom = [\"two\"]\nweight = 0.02\n");
      const Outcome expected = run(job(by_hand), 1, steps(kSteps))[0];
      REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
      const Outcome got = check_grids(replaced(watched, kLoss, own), "energy");
      check_metrics(got, expected, 1e-12);
      CHECK(metric(got, "energy") ==
            doctest::Approx(metric(expected, "loss.first") + metric(expected, "loss.second"))
                .epsilon(1e-12));
    }
  }
  TEST_CASE("terms of an adapter's parameters are means over its targets") {
    const Folder folder;
    const std::string plain = model(folder);
    const std::string layers = replaced(replaced(plain, kFirst, kFirst + layer("test.scale", 0.4)),
                                        kHead, kHead + layer("test.scale", 0.4));
    const std::string adapters =
        replaced(plain, "[loss]", "[model]\ntrain = [\"*\"]\n[loss]") +
        "[[model.adapters]]\ntype = \"test.scales\"\nmatch = [\"model.first.weight\", "
        "\"model.head.weight\"]\nfactor = 0.8\n";
    const Outcome expected = check_grids(layers, "distance");
    const Outcome got = check_grids(adapters, "distance");
    check_metrics(got, expected, 1e-12);
    CHECK(metric(got, "distance") == doctest::Approx(metric(expected, "distance")));
    CHECK(metric(got, "distance") > 0.5);
    CHECK(metric(got, "distance") < 2);
  }
  TEST_CASE("what is wrong is said") {
    const Folder folder;
    const auto error_of = [&](const std::string& toml) {
      return run(job(toml), 1, steps(1))[0].error;
    };
    const std::string faulty = error_of(
        replaced(model(folder), kFirst, kFirst + "[[model.layers]]\ntype = \"test.faulty\"\n"));
    CAPTURE(faulty);
    CHECK(faulty.find("[model.test_faulty1] adds a term 'faulty' to the loss that counts other "
                      "weights") != std::string::npos);
    const std::string taken =
        error_of(replaced(replaced(model(folder), kFirst, kFirst + layer("test.watch", 0.3)),
                          "type = \"accuracy\"\n", "type = \"accuracy\"\nname = \"energy\"\n"));
    CAPTURE(taken);
    CHECK(taken.find("the term 'energy' that it adds to the loss is reported under the name of the "
                     "metric at") != std::string::npos);
  }
}

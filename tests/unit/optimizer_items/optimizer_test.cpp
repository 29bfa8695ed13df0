// Optimizers, in double, compared with formulas written here.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tests/unit/support/golden.hpp"

using namespace plait;
using fake::Tensor;

namespace {

constexpr size_t kSize = 6;  // the last element is padding: always 0

struct Reference {
  double p = 0;
  std::map<std::string, double> s;  // states, 0 at first
};
struct Scalars {
  double rate, factor, decay;
  int64_t step;
};
using Formula = std::function<void(Reference&, double g, const Scalars&)>;

double gradient(size_t element, int64_t step) {
  return element + 1 == kSize
             ? 0
             : std::sin(1.7 * static_cast<double>(element) + 0.9 * static_cast<double>(step)) * 0.3;
}

// 25 steps of an optimizer item, with varying learning rate and factor, compared with the formula.
void compare(const std::string& plugin, const fake::Options::Given& given, double decay,
             const Formula& formula, double initial_state = 0) {
  CAPTURE(plugin);
  fake::Host host;
  host.load("optimizer-" + plugin);
  const auto& item = host.item<plait_optimizer_item>(PLAIT_KIND_OPTIMIZER, plugin);
  const auto options = fake::options_of(item, given);
  std::vector<Reference> reference(kSize);
  Tensor p({kSize}, {0});
  for (size_t i = 0; i + 1 < kSize; ++i)
    p.v[i] = reference[i].p = std::cos(2.3 * static_cast<double>(i));
  std::map<std::string, Tensor> states;
  for (int64_t step = 1; step <= 25; ++step) {
    const double factor = 1.0 / static_cast<double>(step);
    const Scalars at{0.05 * factor, factor, decay, step};
    fake::Builder b;
    b.states = states;
    b.state_like = p;
    Tensor g({kSize}, {0});
    for (size_t i = 0; i < kSize; ++i) g.v[i] = gradient(i, step);
    const plait_update update{sizeof(plait_update),
                              b.input(p),
                              b.input(g),
                              b.input(Tensor({}, {at.rate})),
                              b.input(Tensor({}, {at.factor})),
                              b.input(Tensor({}, {static_cast<double>(step)})),
                              b.input(Tensor({}, {decay})),
                              PLAIT_SCOPE_ELEMENT,
                              0,
                              nullptr};
    plait_value out = 0;
    fake::check(item.build(b.raw(), options->raw(), &update, &out));
    p = b.at(out);
    states = b.new_states;
    for (size_t i = 0; i < kSize; ++i) {
      if (step == 1 && initial_state != 0) reference[i].s["v"] = initial_state;
      formula(reference[i], gradient(i, step), at);
      REQUIRE(p.v[i] == doctest::Approx(reference[i].p).epsilon(1e-11));
    }
    REQUIRE(p.v[kSize - 1] == 0);
    for (const auto& [name, t] : states) REQUIRE(t.v[kSize - 1] == initial_state);
  }
}

Formula adam(double beta1, double beta2, double eps, bool decoupled, bool independent) {
  return [=](Reference& r, double g, const Scalars& at) {
    if (decoupled)
      r.p *= 1 - (independent ? at.factor : at.rate) * at.decay;
    else
      g += at.decay * r.p;
    double &m = r.s["m"], &v = r.s["v"];
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double s = static_cast<double>(at.step);
    const double mean = m / (1 - std::pow(beta1, s)), square = v / (1 - std::pow(beta2, s));
    r.p -= at.rate * mean / (std::sqrt(square) + eps);
  };
}

Formula sgd(double momentum, double dampening, bool nesterov) {
  return [=](Reference& r, double g, const Scalars& at) {
    g += at.decay * r.p;
    if (momentum != 0) {
      double& m = r.s["m"];
      m = at.step == 1 ? g : momentum * m + (1 - dampening) * g;
      g = nesterov ? g + momentum * m : m;
    }
    r.p -= at.rate * g;
  };
}

}  // namespace

TEST_CASE("sgd is PyTorch's, with momentum, dampening, Nesterov and L2 decay") {
  compare("sgd", {}, 0, sgd(0, 0, false));
  compare("sgd", {}, 0.1, sgd(0, 0, false));
  compare("sgd", {{"momentum", "0.9"}}, 0.1, sgd(0.9, 0, false));
  compare("sgd", {{"momentum", "0.8"}, {"dampening", "0.3"}}, 0, sgd(0.8, 0.3, false));
  compare("sgd", {{"momentum", "0.9"}, {"nesterov", "true"}}, 0.1, sgd(0.9, 0, true));
}

TEST_CASE("adam adds the decay to the gradient, adamw shrinks the parameter") {
  compare("adam", {}, 0, adam(0.9, 0.999, 1e-8, false, false));
  compare("adam", {{"beta2", "0.95"}, {"eps", "1e-3"}}, 0.1, adam(0.9, 0.95, 1e-3, false, false));
  compare("adam", {{"beta1", "0.0"}}, 0, adam(0, 0.999, 1e-8, false, false));
  compare("adamw", {}, 0.1, adam(0.9, 0.999, 1e-8, true, false));
}

TEST_CASE("adamw's independent decay follows the schedule and not the rate") {
  compare("adamw", {{"independent_weight_decay", "true"}}, 0.02,
          adam(0.9, 0.999, 1e-8, true, true));
}

TEST_CASE("rmsprop is PyTorch's, plain, centred and with momentum") {
  for (const bool centered : {false, true})
    for (const double momentum : {0.0, 0.9})
      compare("rmsprop",
              {{"alpha", "0.9"},
               {"momentum", std::to_string(momentum)},
               {"centered", centered ? "true" : "false"}},
              0.1, [=](Reference& r, double g, const Scalars& at) {
                g += at.decay * r.p;
                double &v = r.s["v"], &mean = r.s["mean"], &m = r.s["m"];
                v = 0.9 * v + (1 - 0.9) * g * g;
                mean = 0.9 * mean + (1 - 0.9) * g;
                const double variance = centered ? std::max(v - mean * mean, 0.0) : v;
                m = momentum * m + g / (std::sqrt(variance) + 1e-8);
                r.p -= at.rate * m;
              });
}

TEST_CASE("adagrad is PyTorch's, with rate decay and an initial sum") {
  const auto formula = [](double learning_rate_decay) {
    return [=](Reference& r, double g, const Scalars& at) {
      g += at.decay * r.p;
      double& v = r.s["v"];
      v += g * g;
      r.p -= at.rate / (1 + static_cast<double>(at.step - 1) * learning_rate_decay) * g /
             (std::sqrt(v) + 1e-10);
    };
  };
  compare("adagrad", {}, 0.1, formula(0));
  compare("adagrad", {{"learning_rate_decay", "0.1"}}, 0, formula(0.1));
  compare("adagrad", {{"initial_accumulator_value", "0.5"}}, 0, formula(0), 0.5);
}

TEST_CASE("lion follows Chen et al.") {
  compare("lion", {}, 0.1, [](Reference& r, double g, const Scalars& at) {
    double& m = r.s["m"];
    const double u = 0.9 * m + (1 - 0.9) * g;
    r.p -= at.rate * ((u > 0) - (u < 0) + at.decay * r.p);
    m = 0.99 * m + (1 - 0.99) * g;
  });
}

TEST_CASE("nesterov without momentum is refused with the fix") {
  fake::Host host;
  host.load("optimizer-sgd");
  const auto& item = host.item<plait_optimizer_item>(PLAIT_KIND_OPTIMIZER, "sgd");
  const auto options = fake::options_of(item, {{"nesterov", "true"}});
  fake::Builder b;
  const plait_value one = b.input(Tensor({1}, {1}));
  const plait_update update{sizeof(plait_update), one, one, one, one, one, one, 0, 0, nullptr};
  plait_value out = 0;
  plait_error* e = item.build(b.raw(), options->raw(), &update, &out);
  REQUIRE(e != nullptr);
  CHECK(e->code == PLAIT_ERR_CONFIG);
  CHECK(e->text ==
        "[sgd] nesterov = true needs momentum above 0 and dampening 0; set momentum = 0.9, or "
        "nesterov = false, at "
        "experiment.toml:7:1");
  delete e;
}

TEST_CASE("options that make no sense are out of the declared range") {
  fake::Host host;
  for (const char* name : {"sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"})
    host.load(std::string("optimizer-") + name);
  const auto refused = [&](const char* name, const fake::Options::Given& given) {
    CHECK_THROWS_AS(
        fake::options_of(host.item<plait_optimizer_item>(PLAIT_KIND_OPTIMIZER, name), given),
        std::invalid_argument);
  };
  refused("sgd", {{"momentum", "1.0"}});
  refused("adam", {{"beta2", "1.0"}});
  refused("adamw", {{"eps", "0.0"}});
  refused("rmsprop", {{"alpha", "-0.1"}});
  refused("adagrad", {{"eps", "0.0"}});
  refused("lion", {{"beta1", "1.5"}});
}

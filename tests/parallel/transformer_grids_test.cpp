// Small language models on every kind of grid have the losses of one rank. Only the order of sums
// differs: in f64 the first step agrees to the last digits; in f32 the losses of 50 steps agree to
// 1e-5, as the recipe does not amplify rounding.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr double kFirst = 1e-13, kAll = 1e-5;
constexpr int kSteps = 50;

Layout in_sequence(Layout layout) {
  layout.sequence = true;
  return layout;
}

// Tensor ranks shard heads, MLPs and vocabulary.
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all{
      // One rank: accumulation over four micro-batches, recomputation, both.
      {1, 1, 1, 0, "1f1b", 1, 4},
      {1, 1, 1, 0, "1f1b", 1, 16, "layer"},
      {1, 1, 1, 0, "1f1b", 1, 4, "cheap"},
      // Replicas, without ZeRO and with each stage of it.
      {1, 2, 1, 0, "1f1b", 1, 8},
      {1, 2, 1, 1, "1f1b", 1, 8},
      {1, 2, 1, 2, "1f1b", 1, 4},
      {1, 2, 1, 3, "1f1b", 1, 2, "layer"},
      // Tensor ranks.
      {1, 1, 2, 0, "1f1b", 1, 16},
      in_sequence({1, 1, 2, 0, "1f1b", 1, 16}),
      // Pipeline ranks: the first and the last stage share the table of a tied head.
      {2, 1, 1, 0, "1f1b", 1, 4},
      {2, 1, 1, 0, "zero_bubble", 1, 4, "layer"},
      // Several kinds at once.
      {1, 2, 2, 0, "1f1b", 1, 8},
      in_sequence({1, 2, 2, 3, "1f1b", 1, 4, "cheap"}),
      in_sequence({2, 2, 2, 1, "1f1b", 1, 4}),
  };
  return all;
}

double apart(double a, double b) { return a == b ? 0 : std::abs(a - b) / std::abs(b); }

double evaluated(const Outcome& o) {
  return nlohmann::json::parse(o.evaluation)["loss"].get<double>();
}

// All ranks saw the same bits, and began with the weights that one rank begins with.
void check_ranks(const std::vector<Outcome>& got, const Outcome& expected) {
  for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  for (const Outcome& o : got) check_equal(o, got[0]);
  CHECK(got[0].initial == expected.initial);
  CHECK(got[0].samples == expected.samples);
}

void check_first_step(const std::string& toml) {
  const JobSpec job_spec{toml, {"precision.compute=f64", "batch.eval=8"}, {}, {}};
  const Outcome expected = alone(job_spec, 1);
  double loss = 0, norm = 0;
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.text());
    const auto got = run(on(job_spec, layout), layout.ranks(), train(1));
    check_ranks(got, expected);
    const Difference d = check_metrics(got[0], expected, kFirst);
    loss = std::max(loss, d.losses);
    norm = std::max(norm, d.norms);
  }
  MESSAGE("worst relative difference of a loss " << loss << ", of a gradient norm " << norm);
}

void check_all_steps(const std::string& toml) {
  const JobSpec job_spec{toml, {"batch.eval=8"}, {}, {}};
  const Outcome expected = alone(job_spec, kSteps);
  CHECK(expected.losses.back() < 0.8 * expected.losses.front());
  double worst = 0, norm = 0, evaluation = 0;
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.text());
    const auto got = run(on(job_spec, layout), layout.ranks(), train(kSteps));
    check_ranks(got, expected);
    const Difference d = check_metrics(got[0], expected, kAll);
    worst = std::max(worst, d.losses);
    norm = std::max(norm, d.norms);
    evaluation = std::max(evaluation, apart(evaluated(got[0]), evaluated(expected)));
    CHECK(apart(evaluated(got[0]), evaluated(expected)) <= kAll);
  }
  MESSAGE("loss " << expected.losses.front() << " to " << expected.losses.back()
                  << "; worst relative difference of a loss " << worst << ", of a gradient norm "
                  << norm << ", of the evaluation " << evaluation);
}

TEST_SUITE("transformer_step_1") {
  TEST_CASE("a small Llama in f64: step 1 within 1e-13 of one rank on every grid") {
    const Folder folder;
    check_first_step(llama_model(folder));
  }
  TEST_CASE("a small GPT-2 in f64: step 1 within 1e-13 of one rank on every grid") {
    const Folder folder;
    check_first_step(gpt2_model(folder));
  }
}

TEST_SUITE("transformer_50_steps") {
  TEST_CASE("a small Llama in f32: 50 steps within 1e-5 of one rank on every grid") {
    const Folder folder;
    check_all_steps(llama_model(folder));
  }
  TEST_CASE("a small GPT-2 in f32: 50 steps within 1e-5 of one rank on every grid") {
    const Folder folder;
    check_all_steps(gpt2_model(folder));
  }
}

}  // namespace

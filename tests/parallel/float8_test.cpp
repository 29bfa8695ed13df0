// precision.products = "fp8": losses beside those of f32 and bf16, and on every kind of layout. A
// scale is a power of two, so a number is rounded the same whatever shares its scale; layouts
// differ by numbers that another order of a sum moved over the middle between two neighbours.
#include <algorithm>
#include <cmath>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

JobSpec in_fp8(const std::string& toml, const std::string& scaling, const char* compute = "f32") {
  return {toml,
          {"precision.products=fp8", "precision.fp8.scaling=" + scaling,
           std::string("precision.compute=") + compute, "batch.eval=8"},
          {},
          {}};
}

// The greatest difference of two runs' losses, relative.
double apart(const Outcome& a, const Outcome& b) {
  double most = 0;
  REQUIRE(a.losses.size() == b.losses.size());
  for (size_t i = 0; i < a.losses.size(); ++i)
    most = std::max(most, std::abs(a.losses[i] - b.losses[i]) / b.losses[i]);
  return most;
}

TEST_SUITE("float8") {
  TEST_CASE("50 steps of a small GPT are near those of f32 and of bf16") {
    constexpr int kSteps = 50;
    constexpr double kNear = 0.02;  // 0.003 to 0.006 were measured
    const Folder folder;
    const std::string toml = gpt2_model(folder);
    const Outcome f32 = alone({toml, {"batch.eval=8"}, {}, {}}, kSteps);
    const Outcome bf16 = alone({toml, {"batch.eval=8", "precision.compute=bf16"}, {}, {}}, kSteps);
    for (const std::string scaling : {"tensor", "row"}) {
      CAPTURE(scaling);
      const double near_f32 = apart(alone(in_fp8(toml, scaling), kSteps), f32);
      const double near_bf16 = apart(alone(in_fp8(toml, scaling, "bf16"), kSteps), bf16);
      MESSAGE(scaling << ": from f32 " << near_f32 << ", in bf16 from bf16 " << near_bf16);
      CHECK(near_f32 < kNear);
      CHECK(near_bf16 < kNear);
      CHECK(near_f32 > 1e-5);  // products of 8 bits were used
    }
  }

  TEST_CASE("any layout is near one rank, and all ranks see the same") {
    // Of the loss; weights near 0, as biases, differ by more.
    constexpr double kNear = 0.01;
    double most = 0;
    const Folder folder;
    for (const std::string& toml :
         {transformer_model(folder), vocabulary_model(folder, 13), deep_model(folder)})
      for (const std::string scaling : {"tensor", "row"}) {
        JobSpec job_spec = in_fp8(toml, scaling);
        job_spec.overrides.emplace_back("optimizer.type=sgd");
        const Outcome expected = alone(job_spec, 4);
        for (const Layout& layout :
             {Layout{1, 2, 1, 0}, Layout{1, 2, 1, 1}, Layout{1, 2, 1, 3}, Layout{1, 1, 2},
              Layout{2, 2, 1, 1, "zero_bubble", 1, 4, "cheap"},
              Layout{1, 1, 2, 0, "1f1b", 1, 2, "layer", true}}) {
          CAPTURE(scaling);
          CAPTURE(layout.text());
          const std::vector<Outcome> outcomes = run(on(job_spec, layout), layout.ranks(), train(4));
          for (const Outcome& o : outcomes) {
            REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
            CHECK(o.losses == outcomes[0].losses);
            most = std::max(most, apart(o, expected));
          }
        }
      }
    MESSAGE("losses on other layouts: " << most);
    CHECK(most < kNear);
  }
}

}  // namespace

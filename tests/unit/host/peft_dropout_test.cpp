// A dropout that never drops is none: DoRA computes it by products of its own.
#include "tests/unit/host/peft_runs.hpp"

using host::Run;
using nlohmann::json;
using namespace host::peft;

TEST_CASE("DoRA with a dropout that drops nothing trains as without, behind another adapter") {
  const json adamw = {{"lr", 0.02}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  const json match = {"model.linear2.weight"};
  std::vector<double> x(78);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  std::vector<float> fed(x.begin(), x.end());
  std::vector<int32_t> target{0, 1, 2, 3, 4, 0};
  const auto trained = [&](double dropout) {
    const json lora = {{"type", "lora"}, {"match", match}, {"rank", 2}},
               dora = {{"type", "dora"}, {"match", match}, {"rank", 2}, {"dropout", dropout}};
    const Run run(experiment(json{lora, dora}, adamw, ""));
    for (int i = 0; i < 8; ++i) step(run, fed, target);
    return predict(run, x);
  };
  const std::vector<double> without = trained(0.0);
  check_close(trained(1e-15), without, 1e-9);
  CHECK(trained(0.5) != without);
}

// precision.split_master: weights as a bf16 and the 16 bits that it lacks. Every layout makes the
// steps that it makes with f32 weights and copies of them, to the bit.
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

// Halfway between two bf16 a copy is rounded away from 0 where the weight is split, and to even
// where it is not: such weights move to the next f32.
void move_halves(plait::Session& session, Weights& found) {
  const auto facts = nlohmann::json::parse(session.describe());
  for (const auto& p : facts["parameters"]) {
    const auto name = p["name"].get<std::string>();
    size_t n = 1;
    for (const auto& d : p["shape"]) n *= d.get<size_t>();
    std::vector<float> weights(n);
    session.read(name, std::span<float>(weights));
    bool moved = false;
    for (float& x : weights)
      if ((std::bit_cast<uint32_t>(x) & 0xffffu) == 0x8000u) {
        x = std::nextafter(x, 0.0f);
        moved = true;
      }
    if (moved) session.write(name, std::span<const float>(weights));
    found[name].insert(found[name].end(), weights.begin(), weights.end());
  }
}

// Losses, and all weights before every step and behind the last.
Body follow(int steps) {
  return [steps](uint32_t, plait::Session& session, Outcome& outcome) {
    for (int i = 0; i < steps; ++i) {
      move_halves(session, outcome.weights);
      const plait_step_result r = session.step();
      outcome.losses.push_back(r.loss);
      outcome.norms.push_back(r.grad_norm);
    }
    move_halves(session, outcome.weights);
    outcome.evaluation = nlohmann::json::parse(session.evaluate("eval"))["loss"].dump();
  };
}

void check_same_steps(const std::string& toml, const std::string& optimizer, const Layout& layout,
                      int steps) {
  CAPTURE(optimizer);
  CAPTURE(layout.text());
  JobSpec job_spec{
      toml, {"precision.compute=bf16", "batch.eval=8", "optimizer.type=" + optimizer}, {}, {}};
  const auto whole = run(on(job_spec, layout), layout.ranks(), follow(steps));
  job_spec.overrides.emplace_back("precision.split_master=true");
  const auto split = run(on(job_spec, layout), layout.ranks(), follow(steps));
  for (size_t r = 0; r < split.size(); ++r) {
    REQUIRE_MESSAGE(whole[r].code == PLAIT_OK, whole[r].error);
    REQUIRE_MESSAGE(split[r].code == PLAIT_OK, split[r].error);
    REQUIRE(!whole[r].weights.empty());
    check_equal(split[r], whole[r]);
    CHECK(split[r].arena == split[r].planned);
    CHECK(split[r].planned < whole[r].planned);
  }
}

TEST_SUITE("precision") {
  TEST_CASE("split masters, among them a tied table: one rank makes the same steps") {
    const Folder folder;
    for (const std::string& toml : {vocabulary_model(folder, 13), transformer_model(folder)})
      check_same_steps(toml, "adamw", Layout{}, 20);
  }

  TEST_CASE("split masters over replicas, tensor ranks and stages make the same steps") {
    const Folder folder;
    const std::string toml = vocabulary_model(folder, 13);
    for (const Layout& layout :
         {Layout{1, 2, 1, 0}, Layout{1, 2, 1, 1}, Layout{1, 2, 2, 2, "1f1b", 1, 4, "cheap"},
          Layout{1, 1, 2, 0, "1f1b", 1, 2, "layer", true}, Layout{2, 1, 1, 0, "gpipe"},
          Layout{2, 2, 1, 1, "zero_bubble"}})
      check_same_steps(toml, "adamw", layout, 20);
    // Whole parameters, each of one replica.
    for (const Layout& layout : {Layout{1, 2, 1, 0}, Layout{1, 2, 1, 1}, Layout{1, 1, 2}})
      check_same_steps(toml, "muon", layout, 8);
  }

  TEST_CASE("a checkpoint of split masters is resumed on other layouts, and where none is split") {
    const Folder folder;
    const JobSpec whole{
        vocabulary_model(folder, 13), {"precision.compute=bf16", "batch.eval=8"}, {}, {}};
    JobSpec split = whole;
    split.overrides.emplace_back("precision.split_master=true");
    const std::string path = folder / "saved";
    const auto read_after = [&](const JobSpec& job_spec, const Layout& layout, bool save) {
      const auto outcomes = run(on(job_spec, layout), layout.ranks(),
                                [&](uint32_t, plait::Session& session, Outcome& outcome) {
                                  for (int i = 0; save && i < 4; ++i) session.step();
                                  if (save)
                                    session.save(path);
                                  else
                                    session.load(path);
                                  move_halves(session, outcome.weights);
                                });
      for (const Outcome& o : outcomes) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
      return outcomes[0].weights;
    };
    const Weights saved = read_after(split, Layout{1, 2, 2, 1}, true);
    for (const JobSpec& job_spec : {split, whole})
      for (const Layout& layout :
           {Layout{}, Layout{1, 2, 1, 2}, Layout{1, 2, 1, 3}, Layout{2, 1, 2, 0, "gpipe"}}) {
        CAPTURE(layout.text());
        CHECK(read_after(job_spec, layout, false) == saved);
      }
  }
}

}  // namespace

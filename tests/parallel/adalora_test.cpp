// A PEFT method with rules behind the update: the budget of ranks is that of all targets, wherever
// they lie.
#include <algorithm>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr int kSteps = 14;

std::string adapter(int init, int target, int tinit, int tfinal) {
  return "[[model.adapters]]\ntype = \"adalora\"\nmatch = [\"*.attn.*.weight\", "
         "\"*.mlp.*.weight\"]\ninit_rank = " +
         std::to_string(init) + "\ntarget_rank = " + std::to_string(target) +
         "\ntinit = " + std::to_string(tinit) + "\ntfinal = " + std::to_string(tfinal) +
         "\ndelta_t = 2\n";
}

JobSpec job(const std::string& toml, const std::vector<std::string>& more = {}) {
  JobSpec job_spec{toml, {"batch.eval=8", "precision.compute=f64", "run.steps=14"}, {}, {}};
  job_spec.overrides.insert(job_spec.overrides.end(), more.begin(), more.end());
  return job_spec;
}

// How many singular values there are, and how many are 0.
std::pair<int, int> ranks_of(const Outcome& o) {
  int all = 0, gone = 0;
  for (const auto& [name, values] : o.weights) {
    if (!name.ends_with(".adalora.e")) continue;
    all += static_cast<int>(values.size());
    gone += static_cast<int>(std::count(values.begin(), values.end(), 0.0));
  }
  return {all, gone};
}

// The choice is the same: what is 0 in one is 0 in the other.
void check_choice(const Outcome& got, const Outcome& expected) {
  for (const auto& [name, values] : expected.weights) {
    if (!name.ends_with(".adalora.e")) continue;
    CAPTURE(name);
    const std::vector<double>& own = got.weights.at(name);
    REQUIRE(own.size() == values.size());
    for (size_t i = 0; i < own.size(); ++i) CHECK((own[i] == 0) == (values[i] == 0));
  }
}

Body save_after(int steps, const std::string& path) {
  return [=](uint32_t, plait::Session& session, Outcome&) {
    for (int i = 0; i < steps; ++i) session.step();
    session.save(path);
  };
}

Body resume(const std::string& path, int steps) {
  return [=](uint32_t rank, plait::Session& session, Outcome& o) {
    session.load(path);
    train(steps)(rank, session, o);
  };
}

}  // namespace

TEST_SUITE("adalora") {
  TEST_CASE("the same ranks go on every grid") {
    const Folder folder;
    for (const std::string& model : {llama_model(folder), gpt2_model(folder)}) {
      const JobSpec job_spec = job(model + adapter(4, 2, 2, 4));
      const Outcome expected = alone(job_spec, kSteps);
      const auto [all, gone] = ranks_of(expected);
      CHECK(all > 16);
      CHECK(gone == all / 2);
      for (const Layout& layout : few_layouts()) {
        CAPTURE(layout.text());
        const auto got = run(on(job_spec, layout), layout.ranks(), train(kSteps));
        check_same(got, expected, 1e-10);
        check_choice(got[0], expected);
      }
    }
  }
  TEST_CASE("with an optimizer that sees whole matrices, and weights of 16 bits") {
    const Folder folder;
    const std::string toml = llama_model(folder) + adapter(4, 2, 2, 4);
    const std::vector<std::string> lamb{"optimizer.type=lamb"};
    const Outcome expected = alone(job(toml, lamb), kSteps);
    CHECK(ranks_of(expected).second == ranks_of(expected).first / 2);
    for (const Layout& layout : {Layout{1, 2, 1, 3, "1f1b", 1, 2, "cheap"}, Layout{1, 2, 2, 1}}) {
      CAPTURE(layout.text());
      check_same(run(on(job(toml, lamb), layout), layout.ranks(), train(kSteps)), expected, 1e-10);
    }
    for (const char* kept : {"precision.master=false", "precision.split_master=true"})
      for (const Layout& layout : {Layout{}, Layout{1, 2, 1, 2}}) {
        CAPTURE(kept);
        CAPTURE(layout.text());
        JobSpec low = on(job(toml, {kept}), layout);
        low.overrides[1] = "precision.compute=bf16";
        for (const Outcome& o : run(low, layout.ranks(), train(kSteps))) {
          REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
          CHECK(ranks_of(o).second == ranks_of(o).first / 2);
          CHECK(o.arena == o.planned);
        }
      }
  }
  TEST_CASE("a run that is resumed is the run that was not interrupted, bit for bit") {
    const Folder folder;
    const std::string toml = llama_model(folder) + adapter(4, 2, 2, 4);
    int n = 0;
    for (const Layout& layout :
         {Layout{}, Layout{1, 2, 1, 3, "1f1b", 1, 2}, Layout{2, 1, 1, 0, "1f1b", 1, 4}}) {
      CAPTURE(layout.text());
      const JobSpec job_spec = on(job(toml), layout);
      const auto straight = run(job_spec, layout.ranks(), train(kSteps));
      REQUIRE_MESSAGE(straight[0].code == PLAIT_OK, straight[0].error);
      for (const int before : {5, 11}) {
        CAPTURE(before);
        const std::string path = folder / ("saved" + std::to_string(n++));
        for (const Outcome& o : run(job_spec, layout.ranks(), save_after(before, path)))
          REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
        const auto got = run(job_spec, layout.ranks(), resume(path, kSteps - before));
        REQUIRE_MESSAGE(got[0].code == PLAIT_OK, got[0].error);
        CHECK(got[0].weights == straight[0].weights);
      }
    }
  }
  TEST_CASE("what is wrong is said") {
    const Folder folder;
    const auto check = [&](const std::string& toml, const std::vector<std::string>& more,
                           const std::string& part) {
      const std::string error = run(job(llama_model(folder) + toml, more), 1, train(1))[0].error;
      CAPTURE(error);
      CHECK(error.find(part) != std::string::npos);
    };
    check(adapter(4, 5, 0, 0), {},
          "target_rank is 5, expected at most init_rank, 4; set at test.toml:");
    check(adapter(4, 2, 8, 6), {}, "tinit 8 and tfinal 6 (test.toml:");
    check(adapter(4, 2, 8, 6), {}, "leave no step of 14 in which ranks could go");
    check(adapter(4, 2, 0, 0), {"run.steps=0"},
          "[peft-adalora] the number of steps is not known, expected one, as the ranks follow a "
          "schedule over all of them; set run.steps or run.epochs");
  }
}

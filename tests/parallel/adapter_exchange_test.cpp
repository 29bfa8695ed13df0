// Adapters saved, reset and loaded one by one while several ranks train.
#include <plait/adapters.hpp>

#include <filesystem>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr char kAdapters[] = R"(
[[model.adapters]]
type = "lora"
match = ["*.attn.*.weight", "*.mlp.*.weight"]
rank = 3
[[model.adapters]]
type = "dora"
match = ["*.attn.v.weight"]
rank = 2
[[model.adapters]]
type = "lora"
name = "table"
match = ["model.ids.weight", "model.head.weight"]
rank = 2
)";

Weights of_others(const Weights& all, const std::string& adapter) {
  Weights others;
  for (const auto& [name, values] : all)
    if (name.find("." + adapter + ".") == std::string::npos) others[name] = values;
  return others;
}

// norms: the loss behind a step made with the adapter that was reset, then loaded, with new states.
Body exchange(const std::string& folder) {
  return [folder](uint32_t rank, plait::Session& session, Outcome& o) {
    train(3)(rank, session, o);
    const double trained = loss_of_evaluation(session);
    for (const std::string name : {"lora", "dora", "table"}) {
      CAPTURE(name);
      const std::string path = folder + "/" + name;
      plait::save_adapter(session, name, path);
      plait::reset_adapter(session, name);
      const Weights fresh = weights_of(session);
      for (const auto& [parameter, values] : fresh)
        if (parameter.find("." + name + ".") != std::string::npos)
          CHECK(values == o.initial.at(parameter));
      CHECK(of_others(fresh, name) == of_others(o.weights, name));
      CHECK(loss_of_evaluation(session) != trained);
      plait::load_adapter(session, name, path);
      CHECK(weights_of(session) == o.weights);
      CHECK(loss_of_evaluation(session) == trained);
      // What does not fit is an error of all ranks, and changes nothing.
      const std::string other = name == "lora" ? "dora" : "lora";
      try {
        plait::load_adapter(session, other, path);
        FAIL("the file of another method was loaded");
      } catch (const plait::HostError& e) {
        const bool named = std::string(e.what()).find("'" + path + "'") != std::string::npos;
        CHECK_MESSAGE(named, e.what());
      }
      CHECK(weights_of(session) == o.weights);
    }
    session.step();
    o.norms = {trained, loss_of_evaluation(session)};
  };
}

}  // namespace

TEST_SUITE("adapters") {
  TEST_CASE("exchanged one by one on every grid") {
    const Folder folder;
    const std::string toml = llama_model(folder) + kAdapters;
    const std::vector<Layout> grids{{},
                                    {1, 2, 1, 3, "1f1b", 1, 2, "cheap"},
                                    {1, 1, 2, 0, "1f1b", 1, 16},
                                    {2, 1, 1, 0, "1f1b", 1, 4},
                                    {1, 2, 2, 1, "1f1b", 1, 4}};
    for (const char* precision : {"precision.compute=f64", "precision.compute=bf16"}) {
      const JobSpec job_spec{toml, {"batch.eval=8", precision}, {}, {}};
      std::vector<double> expected;
      for (const Layout& layout : grids) {
        CAPTURE(layout.text());
        std::filesystem::remove_all(folder / "adapters");
        const auto got = run(on(job_spec, layout), layout.ranks(), exchange(folder / "adapters"));
        for (const Outcome& o : got)
          if (o.code != PLAIT_ERR_PEER) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
        for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
        if (expected.empty()) expected = got[0].norms;
        const double tolerance = precision == std::string("precision.compute=f64") ? 1e-9 : 2e-2;
        for (const Outcome& o : got) {
          CHECK(o.norms == got[0].norms);
          CHECK(o.norms[1] == doctest::Approx(expected[1]).epsilon(tolerance));
        }
      }
    }
  }
}

// The topology is invisible in the result.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/parallel/ranks.hpp"

namespace {

using namespace parallel;

Outcome alone(const Team& team, int steps) {
  const auto outcomes = run(team, 1, train(steps));
  REQUIRE_MESSAGE(outcomes[0].code == PLAIT_OK, outcomes[0].error);
  return outcomes[0];
}

TEST_SUITE("layouts") {
  TEST_CASE(
      "every grid of 2, 4 and 8 ranks, ZeRO, any micro-batch: 50 steps within 1e-5 of one rank") {
    const Folder folder;
    Team team{model(folder), {}, {}, {}};
    const Outcome expected = alone(team, 50);
    for (const int ranks : {2, 4, 8})
      for (int tensor = 1; tensor <= ranks; tensor *= 2)
        for (const int zero : {0, 1, 2, 3})
          for (const int passes : {1, 2}) {
            const int data = ranks / tensor;
            if (zero > 0 && data == 1) continue;
            CAPTURE(data);
            CAPTURE(tensor);
            CAPTURE(zero);
            CAPTURE(passes);
            team.overrides = {"topology.data=" + std::to_string(data),
                              "topology.tensor=" + std::to_string(tensor),
                              "topology.zero=" + std::to_string(zero),
                              "batch.micro=" + std::to_string(16 / data / passes),
                              // Several parts even of so small a model.
                              "topology.bucket=0.001"};
            check_same(run(team, static_cast<uint32_t>(ranks), train(50)), expected, 1e-5);
          }
  }

  TEST_CASE(
      "layers that know nothing of ranks, between such that are shared: embeddings, branches, "
      "norms, shapes") {
    const Folder folder;
    Team team{mixed_model(folder), {}, {}, {}};
    const Outcome expected = alone(team, 50);
    for (const char* layout :
         {"tensor=2", "tensor=4", "tensor=2 data=2", "tensor=2 data=2 zero=3"}) {
      CAPTURE(layout);
      team.overrides.clear();
      uint32_t ranks = 1;
      std::stringstream words(layout);
      for (std::string word; words >> word;) {
        team.overrides.push_back("topology." + word);
        if (word[0] != 'z') ranks *= static_cast<uint32_t>(word.back() - '0');
      }
      check_same(run(team, ranks, train(50)), expected, 1e-5);
    }
  }

  TEST_CASE("a vocabulary of any size, shared by tensor ranks: embedding, tied head, loss") {
    for (const int vocabulary : {12, 13, 5}) {
      const Folder folder;
      Team team{vocabulary_model(folder, vocabulary), {}, {}, {}};
      const Outcome expected = alone(team, 50);
      for (const std::vector<std::string>& layout :
           {std::vector<std::string>{"topology.tensor=2"},
            {"topology.tensor=4"},
            {"topology.tensor=2", "topology.data=2", "topology.zero=3"},
            {"topology.tensor=4", "topology.data=2", "topology.zero=2"},
            {"topology.tensor=2", "topology.pipeline=2", "batch.micro=4", "batch.eval=16"}}) {
        CAPTURE(vocabulary);
        CAPTURE(layout[0]);
        CAPTURE(layout.back());
        team.overrides = layout;
        uint32_t ranks = 1;
        for (const std::string& word : layout)
          if (word.find("topology.zero") != 0 && word.find("topology.") == 0)
            ranks *= static_cast<uint32_t>(word.back() - '0');
        check_same(run(team, ranks, train(50)), expected, 1e-5);
      }
    }
  }

  TEST_CASE("a layer of one output, or of fewer than there are ranks") {
    for (const char* out : {"1", "3"}) {
      const Folder folder;
      const Team base{model(folder), {}, {}, {}};
      std::string toml = base.toml;
      const std::string last = "name = \"head\"\nout = 4\nparallel = \"row\"";
      toml.replace(toml.find(last), last.size(),
                   std::string("out = ") + out +
                       "\nparallel = \"column\"\n[[model.layers]]\ntype = "
                       "\"linear\"\nout = 4");
      Team team{toml, {}, {}, {}};
      const Outcome expected = alone(team, 20);
      for (const int tensor : {2, 4}) {
        CAPTURE(out);
        CAPTURE(tensor);
        team.overrides = {"topology.tensor=" + std::to_string(tensor)};
        check_same(run(team, static_cast<uint32_t>(tensor), train(20)), expected, 1e-5);
      }
    }
  }

  TEST_CASE("neither table nor logits come together when a vocabulary is shared") {
    const Folder folder;
    plait::Engine engine;
    const auto experiment = plait::Experiment::parse(engine, vocabulary_model(folder, 13),
                                                     "test.toml", {"topology.tensor=2"});
    plait::JobSettings job;
    job.size = 2;
    job.meeting = "file:" + (folder / "nobody");
    const auto plan = nlohmann::json::parse(plait::Plan(experiment, plait::Job(job)).describe());
    for (const auto& program : plan["programs"]) {
      if (program["name"] != "micro") continue;
      for (const auto& kernel : program["kernels"])
        if (kernel.contains("exchange") && kernel["exchange"]["kind"] == "all_gather") {
          // The layer between them is cut along its inputs. Rows of seven ids, or seven of the classes, are what must not travel.
          CHECK(kernel["exchange"]["bytes"] != 7 * 8 * 4);
          CHECK(kernel["exchange"]["bytes"] != 16 * 6 * 7 * 4);
          CHECK(kernel["exchange"]["bytes"] == 16 * 6 * 4 * 4);
        }
    }
  }

  TEST_CASE("recomputation gives the same bits, alone and on a grid, with ZeRO and accumulation") {
    const Folder folder;
    for (const std::vector<std::string>& layout :
         {std::vector<std::string>{},
          {"topology.data=2", "topology.tensor=2", "topology.zero=3"},
          {"topology.data=2", "topology.zero=2", "batch.micro=4"}}) {
      Team team{model(folder), layout, {}, {}};
      const uint32_t ranks = layout.empty()                                         ? 1
                             : layout.size() == 3 && layout[1] != "topology.zero=2" ? 4
                                                                                    : 2;
      const auto plain = run(team, ranks, train(20));
      for (const char* mode : {"layer", "stage", "budget"}) {
        CAPTURE(ranks);
        CAPTURE(mode);
        team.overrides = layout;
        team.overrides.push_back(std::string("topology.recompute=") + mode);
        if (std::string(mode) == "budget")
          team.overrides.push_back("topology.recompute_budget=0.018");
        const auto again = run(team, ranks, train(20));
        REQUIRE_MESSAGE(again[0].code == PLAIT_OK, again[0].error);
        CHECK(again[0].losses == plain[0].losses);
        CHECK(again[0].norms == plain[0].norms);
        CHECK(again[0].weights == plain[0].weights);
      }
    }
  }

  TEST_CASE("a byte budget is met, or refused with the least that is possible") {
    std::string toml = R"([run]
threads = 1
[batch]
global = 512
[data.train]
type = "synthetic"
shape = [64]
)";
    for (int i = 0; i < 8; ++i)
      toml += "[[model.layers]]\ntype = \"linear\"\nout = 64\n[[model.layers]]\ntype = \"gelu\"\n";
    toml += "[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = \"sgd\"\n";
    const auto transient = [&](const std::vector<std::string>& overrides) {
      plait::Engine engine;
      const auto experiment = plait::Experiment::parse(engine, toml, "test.toml", overrides);
      const plait::Plan plan(experiment);
      return memory_of(plan, "transient");
    };
    const double plain = transient({});
    for (const double share : {0.9, 0.75, 0.6}) {
      CAPTURE(share);
      const double budget = plain * share;
      const double used =
          transient({"topology.recompute=budget",
                     "topology.recompute_budget=" + std::to_string(budget / (1 << 20))});
      CHECK(used <= budget);
    }
    std::string text;
    try {
      transient({"topology.recompute=budget", "topology.recompute_budget=0.01"});
    } catch (const plait::HostError& e) {
      text = e.what();
    }
    CHECK(text.find("topology.recompute_budget allows") != std::string::npos);
  }

  TEST_CASE("the same layout twice gives the same bits") {
    const Folder folder;
    const Team team{
        model(folder), {"topology.data=2", "topology.tensor=2", "topology.zero=3"}, {}, {}};
    const auto a = run(team, 4, train(20)), b = run(team, 4, train(20));
    REQUIRE_MESSAGE(a[0].code == PLAIT_OK, a[0].error);
    CHECK(a[0].losses == b[0].losses);
    CHECK(a[0].weights == b[0].weights);
  }
}

}  // namespace

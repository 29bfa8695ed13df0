// The topology is invisible in the result.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

// Three hidden layers of that width; buckets of that many MiB.
std::string wide(int width, double bucket) {
  std::string toml =
      "[run]\nseed = 7\nthreads = 1\n[batch]\nglobal = 16\neval = 16\n[topology]\nbucket_mib = " +
      std::to_string(bucket) + "\n";
  for (const char* data : {"train", "eval"})
    toml += std::string("[data.") + data +
            "]\ntype = \"synthetic\"\nsamples = 64\nshape = [16]\nclasses = 4\n";
  for (const char* parallel : {"column", "row", "column"})
    toml += "[[model.layers]]\ntype = \"linear\"\nout = " + std::to_string(width) +
            "\nparallel = \"" + parallel + "\"\n[[model.layers]]\ntype = \"gelu\"\n";
  return toml +
         "[[model.layers]]\ntype = \"linear\"\nout = 4\n[loss]\ntype = \"cross_entropy\"\n"
         "[[metrics]]\ntype = \"accuracy\"\n"
         "[optimizer]\ntype = \"sgd\"\nlearning_rate = 0.1\nmomentum = 0.9\nclip_grad_norm = 1.0\n";
}

// Over shared memory: the same bits as `got`, and gradients are reduced in place if all replicas
// can reach them.
void check_over_shm(JobSpec job_spec, const Layout& layout, const Outcome& got) {
  job_spec.overrides.push_back("topology.backend=shm");
  for (const Outcome& o : run(job_spec, layout.ranks(), train(10))) {
    REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
    check_equal(o, got);
    CHECK(o.arena == o.planned);
    CHECK(o.planned_gradients > 0);
    CHECK(o.shared == (layout.zero == 0 ? o.planned_gradients : 0));
  }
  CHECK(got.shared == 0);
}

TEST_SUITE("layouts_1") {
  TEST_CASE(
      "layers that know nothing of ranks, between sharded ones: embeddings, branches, "
      "norms, shapes") {
    const Folder folder;
    JobSpec job_spec{mixed_model(folder), {}, {}, {}};
    const Outcome expected = alone(job_spec, 50);
    for (const char* layout :
         {"tensor=2", "tensor=4", "tensor=2 data=2", "tensor=2 data=2 zero=3"}) {
      CAPTURE(layout);
      job_spec.overrides.clear();
      uint32_t ranks = 1;
      std::stringstream words(layout);
      for (std::string word; words >> word;) {
        job_spec.overrides.push_back("topology." + word);
        if (word[0] != 'z') ranks *= static_cast<uint32_t>(word.back() - '0');
      }
      check_same(run(job_spec, ranks, train(50)), expected);
    }
  }

  TEST_CASE("a vocabulary of any size, shared by tensor ranks: embedding, tied head, loss") {
    for (const int vocabulary : {12, 13, 5}) {
      const Folder folder;
      JobSpec job_spec{vocabulary_model(folder, vocabulary), {}, {}, {}};
      const Outcome expected = alone(job_spec, 50);
      for (const std::vector<std::string>& layout :
           {std::vector<std::string>{"topology.tensor=2"},
            {"topology.tensor=4"},
            {"topology.tensor=2", "topology.sequence=true"},
            {"topology.tensor=2", "topology.data=2", "topology.zero=3"},
            {"topology.tensor=4", "topology.data=2", "topology.zero=2"},
            {"topology.tensor=4", "topology.data=2", "topology.zero=1", "topology.sequence=true"},
            {"topology.tensor=2", "topology.pipeline=2", "batch.micro=4", "batch.eval=16"}}) {
        CAPTURE(vocabulary);
        CAPTURE(layout[0]);
        CAPTURE(layout.back());
        job_spec.overrides = layout;
        uint32_t ranks = 1;
        for (const std::string& word : layout)
          if (std::isdigit(word.back()) && word.find("topology.zero") != 0 &&
              word.find("topology.") == 0)
            ranks *= static_cast<uint32_t>(word.back() - '0');
        check_same(run(job_spec, ranks, train(50)), expected);
      }
    }
  }

  TEST_CASE("a layer of one output, or of fewer than there are ranks") {
    for (const char* out : {"1", "3"}) {
      const Folder folder;
      const JobSpec base{model(folder), {}, {}, {}};
      std::string toml = base.toml;
      const std::string last = "name = \"head\"\nout = 4\nparallel = \"row\"";
      toml.replace(toml.find(last), last.size(),
                   std::string("out = ") + out +
                       "\nparallel = \"column\"\n[[model.layers]]\ntype = "
                       "\"linear\"\nout = 4");
      JobSpec job_spec{toml, {}, {}, {}};
      const Outcome expected = alone(job_spec, 20);
      for (const int tensor : {2, 4}) {
        CAPTURE(out);
        CAPTURE(tensor);
        job_spec.overrides = {"topology.tensor=" + std::to_string(tensor)};
        check_same(run(job_spec, static_cast<uint32_t>(tensor), train(20)), expected);
      }
    }
  }

  TEST_CASE("neither the table nor the logits are gathered when a vocabulary is sharded") {
    const Folder folder;
    // The accuracy gathers logits whose classes the ranks do not divide.
    const JobSpec job_spec{
        vocabulary_model(folder, 13), {"topology.tensor=2", "metrics[0].train=false"}, {}, {}};
    const auto plan = nlohmann::json::parse(plan_of(job_spec, 2));
    int gathered = 0;
    for (const auto& program : plan["programs"]) {
      if (program["name"] != "forward_backward") continue;
      for (const auto& kernel : program["kernels"])
        if (kernel.contains("collective") && kernel["collective"]["kind"] == "all_gather") {
          // The layer between them is sharded along its inputs. Rows of seven ids, or seven of the
          // classes, must not be communicated.
          CHECK(kernel["collective"]["bytes"] != 7 * 8 * 4);
          CHECK(kernel["collective"]["bytes"] != 16 * 6 * 7 * 4);
          CHECK(kernel["collective"]["bytes"] == 16 * 6 * 4 * 4);
          ++gathered;
        }
    }
    CHECK(gathered > 0);
  }
}

TEST_SUITE("layouts_2") {
  TEST_CASE("parts so large that ranks of one machine exchange them only when they are needed") {
    JobSpec job_spec{wide(800, 2), {}, {}, {}};
    const Outcome expected = alone(job_spec, 10);
    for (const auto& [tensor, passes] : {std::pair{1, 1}, {1, 2}, {2, 2}})
      for (int zero = 0; zero <= 3; ++zero) {
        Layout layout{1, 2, tensor, zero};
        layout.micro = 8 / passes;
        CAPTURE(layout.text());
        job_spec.overrides = layout.overrides();
        job_spec.overrides.pop_back();  // default buckets
        const auto got = run(job_spec, layout.ranks(), train(10));
        check_same(got, expected);
        check_equal(run(job_spec, layout.ranks(), train(10))[0], got[0]);
        check_over_shm(job_spec, layout, got[0]);
      }
  }

  TEST_CASE("smaller parts, exchanged at once, in one stage and in two") {
    JobSpec job_spec{wide(400, 0.5), {}, {}, {}};
    const Outcome expected = alone(job_spec, 10);
    for (const int pipeline : {1, 2}) {
      Layout layout{pipeline, 2, 1, 0};
      layout.micro = 4;
      CAPTURE(layout.text());
      job_spec.overrides = layout.overrides();
      job_spec.overrides.pop_back();
      const auto got = run(job_spec, layout.ranks(), train(10));
      check_same(got, expected);
      check_over_shm(job_spec, layout, got[0]);
    }
  }
}

TEST_SUITE("layouts_3") {
  TEST_CASE("recomputation gives the same bits: alone, with ZeRO, accumulation and stages") {
    struct Case {
      Layout layout;
      const char* budget;  // MiB: less than the layout uses without it
    };
    const Folder folder;
    for (const Case& one :
         {Case{{1, 1, 1, 0, "1f1b", 1, 16}, "0.018"}, Case{{1, 2, 2, 3, "1f1b", 1, 8}, "0.018"},
          Case{{1, 2, 1, 2, "1f1b", 1, 4}, "0.018"}, Case{{2, 1, 1, 0, "1f1b", 1, 4}, "0.012"},
          Case{{2, 2, 1, 3, "zero_bubble", 1, 2}, "0.012"},
          Case{{2, 1, 2, 0, "interleaved", 2, 4}, "0.012"}}) {
      CAPTURE(one.layout.text());
      JobSpec job_spec{model(folder), one.layout.overrides(), {}, {}};
      const auto plain = run(job_spec, one.layout.ranks(), train(20));
      REQUIRE_MESSAGE(plain[0].code == PLAIT_OK, plain[0].error);
      for (const char* mode : {"cheap", "layer", "stage", "budget"}) {
        CAPTURE(mode);
        Layout again = one.layout;
        again.recompute = mode;
        job_spec.overrides = again.overrides();
        if (again.recompute == "budget")
          job_spec.overrides.push_back(std::string("topology.recompute_budget=") + one.budget);
        for (const Outcome& o : run(job_spec, again.ranks(), train(20))) {
          REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
          check_equal(o, plain[0]);
        }
      }
    }
  }

  TEST_CASE("operands of large products are recomputed by themselves: less memory, the same bits") {
    std::string toml = R"([run]
threads = 1
[batch]
global = 16
[data.train]
type = "synthetic"
shape = [16]
[data.eval]
type = "synthetic"
shape = [16]
[[model.layers]]
type = "linear"
out = 24
)";
    for (const std::string before : {"\"layer_norm\"", "\"gelu\""})
      for (const std::string& type :
           {before, std::string("\"linear\"\nout = 1040\nparallel = \"column\""),
            std::string("\"relu\""), std::string("\"linear\"\nout = 24")})
        toml += "[[model.layers]]\ntype = " + type + "\n";
    toml += "[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = \"adamw\"\n";
    const auto transient = [&](const char* mode) {
      const std::string key = std::string("topology.recompute=") + mode;
      return nlohmann::json::parse(plan_of({toml, {key}, {}, {}}, 1))["memory"]["transient"]
          .get<int>();
    };
    CHECK(transient("cheap") < transient("none"));
    for (Layout layout :
         {Layout{1, 1, 1, 0}, Layout{1, 2, 2, 3}, Layout{2, 1, 2, 0, "interleaved", 2},
          Layout{2, 2, 1, 2, "zero_bubble", 1, 2}}) {
      layout.sequence = layout.tensor > 1;
      CAPTURE(layout.text());
      const auto plain = run(on({toml, {}, {}, {}}, layout), layout.ranks(), train(5));
      REQUIRE_MESSAGE(plain[0].code == PLAIT_OK, plain[0].error);
      layout.recompute = "cheap";
      for (const Outcome& o : run(on({toml, {}, {}, {}}, layout), layout.ranks(), train(5))) {
        REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
        check_equal(o, plain[0]);
      }
    }
  }

  TEST_CASE("a frozen teacher beside a student: the same result, and it stays as it was") {
    const Folder folder;
    JobSpec job_spec{distillation_model(folder), {"batch.eval=8"}, {}, {}};
    const Outcome expected = alone(job_spec, 50);
    for (const Layout& layout :
         {Layout{1, 2, 1, 3}, Layout{1, 1, 2}, Layout{1, 2, 2, 1}, Layout{2, 1, 1},
          Layout{2, 2, 1, 2, "zero_bubble"}, Layout{2, 1, 2, 0, "interleaved", 2},
          Layout{4, 1, 1, 0, "gpipe"}, Layout{2, 2, 2, 3}}) {
      CAPTURE(layout.text());
      job_spec.overrides = layout.overrides();
      const auto outcomes = run(job_spec, layout.ranks(), train(50));
      check_same(outcomes, expected);
      for (const auto& [name, values] : outcomes[0].weights)
        CHECK((values == outcomes[0].initial.at(name)) == name.starts_with("teacher."));
    }
  }

  TEST_CASE("losses that count different weights: each is divided by its own on every layout") {
    const Folder folder;
    JobSpec job_spec{labelled_distillation_model(folder), {"batch.eval=8"}, {}, {}};
    const Outcome expected = alone(job_spec, 50);
    CHECK(expected.losses.back() < 0.7 * expected.losses.front());
    for (const Layout& layout :
         {Layout{1, 1, 1, 0, "1f1b", 1, 1}, Layout{1, 2, 1, 3}, Layout{1, 4, 1, 0, "1f1b", 1, 1},
          Layout{1, 1, 2}, Layout{1, 2, 2, 1}, Layout{2, 1, 1}, Layout{2, 2, 1, 2, "zero_bubble"},
          Layout{2, 1, 2, 0, "interleaved", 2}, Layout{4, 1, 1, 0, "gpipe"}, Layout{2, 2, 2, 3}}) {
      CAPTURE(layout.text());
      job_spec.overrides = layout.overrides();
      check_same(run(job_spec, layout.ranks(), train(50)), expected);
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
      const auto plan = nlohmann::json::parse(plan_of({toml, overrides, {}, {}}, 1));
      return plan["memory"]["transient"].get<double>();
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
}

}  // namespace

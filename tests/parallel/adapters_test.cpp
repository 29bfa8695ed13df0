// PEFT methods on every kind of grid: the losses of one rank, and a model that stays as it is; what
// they changed merged into it, and taken back.
#include <plait/adapters.hpp>

#include <algorithm>
#include <functional>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr char kAdapters[] = R"(
[[model.adapters]]
type = "lora"
match = ["*.attn.*.weight", "*.mlp.*.weight"]
exclude = ["*.attn.k.weight"]
rank = 3
alpha = 6
dropout = 0.1
[[model.adapters]]
type = "lora"
name = "table"
match = ["model.ids.weight", "model.head.weight"]
rank = 2
[[model.adapters]]
type = "ia3"
match = ["*.attn.v.weight"]
[[model.adapters]]
type = "ia3"
name = "inner"
match = ["*.mlp.down.weight"]
on = "input"
[[model.adapters]]
type = "bottleneck"
match = ["*.attn.out.weight", "*.mlp.down.weight", "model.norm"]
width = 6
[[model.adapters]]
type = "vera"
match = ["*.attn.q.weight", "*.attn.out.weight", "*.mlp.down.weight"]
rank = 8
[[model.adapters]]
type = "token_rows"
match = ["model.ids.weight", "model.head.weight"]
ids = [9, 10, 11, 3, 40]
[[model.adapters]]
type = "pissa"
match = ["*.mlp.up.weight", "*.attn.out.weight"]
rank = 3
alpha = 6
[[model.adapters]]
type = "adalora"
match = ["*.attn.v.weight", "*.mlp.down.weight"]
init_rank = 4
target_rank = 3
tinit = 2
tfinal = 30
dropout = 0.1
[[model.adapters]]
type = "soft_prompt"
match = ["model.ids.weight"]
n_tokens = 3
init_ids = [5, 2]
[[model.adapters]]
type = "prefix"
match = ["*.attn.k.weight", "*.attn.v.weight"]
n_tokens = 2
init_std = 0.3
)";
// A Llama has no biases.
constexpr char kBiases[] = R"(
[[model.adapters]]
type = "bitfit"
match = ["*.weight"]
)";

// Methods that can be merged, several on one weight.
constexpr char kMerged[] = R"(
[[model.adapters]]
type = "lora"
match = ["*.attn.*.weight", "*.mlp.*.weight"]
exclude = ["*.attn.k.weight"]
rank = 3
alpha = 6
[[model.adapters]]
type = "ia3"
match = ["*.attn.v.weight"]
[[model.adapters]]
type = "ia3"
name = "inner"
match = ["*.mlp.down.weight"]
on = "input"
[[model.adapters]]
type = "dora"
match = ["*.attn.k.weight", "*.attn.out.weight", "*.mlp.down.weight"]
rank = 2
[[model.adapters]]
type = "pissa"
match = ["*.attn.q.weight", "*.mlp.up.weight"]
rank = 4
rank_pattern = ["*.mlp.*=2"]
alpha = 4
[[model.adapters]]
type = "adalora"
match = ["*.attn.v.weight", "*.mlp.down.weight"]
init_rank = 4
target_rank = 2
tfinal = 32
)";
// A GPT-2's table is also its head.
constexpr char kMergedTables[] = R"(
[[model.adapters]]
type = "lora"
name = "table"
match = ["model.ids.weight", "model.head.weight"]
rank = 2
)";

// Of the matrices of experts, and of their router.
constexpr char kOfExperts[] = R"(
[[model.adapters]]
type = "lora"
match = ["*.attn.out.weight", "*.mlp.*.weight"]
rank = 3
alpha = 6
dropout = 0.1
)";

// Of an adapter, and trained: VeRA's matrices stay as they are drawn, and PiSSA's initial factors.
bool is_adapter(const std::string& parameter) {
  for (const char* name : {".lora.", ".table.", ".ia3.", ".inner.", ".dora.", ".bottleneck.",
                           ".bitfit.", ".vera.d", ".vera.b", ".token_rows.", ".pissa.a", ".pissa.b",
                           ".soft_prompt.", ".prefix.", ".adalora."})
    if (parameter.find(name) != std::string::npos) return true;
  return false;
}

// The model's own parameters are what they were; every adapter has moved.
void check_frozen(const Outcome& o) {
  size_t adapters = 0;
  for (const auto& [name, before] : o.initial) {
    CAPTURE(name);
    CHECK((o.weights.at(name) == before) == !is_adapter(name));
    adapters += is_adapter(name);
  }
  CHECK(adapters > 0);
  CHECK(adapters < o.initial.size());
}

void check_grids(const std::string& toml, const std::string& compute, double tolerance, int steps,
                 const std::string& frozen = "master",
                 const std::function<bool(const Layout&)>& tried = {}) {
  const JobSpec job_spec{toml + kAdapters,
                         {"batch.eval=8", "run.steps=40", "precision.compute=" + compute,
                          "precision.frozen=" + frozen},
                         {},
                         {}};
  const Outcome expected = alone(job_spec, steps);
  check_frozen(expected);
  CHECK(expected.losses.back() < expected.losses.front());
  for (const Layout& layout : few_layouts()) {
    if (tried && !tried(layout)) continue;
    CAPTURE(layout.text());
    const auto got = run(on(job_spec, layout), layout.ranks(), train(steps));
    for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
    for (const Outcome& o : got) check_equal(o, got[0]);
    const bool numbers = frozen == "int8" || frozen == "nf4";
    if (layout.tensor == 1 || !numbers) CHECK(got[0].initial == expected.initial);
    check_metrics(got[0], expected, tolerance);
    check_frozen(got[0]);
    CHECK(got[0].arena == got[0].planned);
  }
}

// Steps, then a merge and back, of all adapters and of `one`, whose changes are added, and a step
// behind a merge for good. norms: the loss before, merged, taken back, with the one merged, and
// behind that step.
Body train_and_merge(int steps, const std::string& one) {
  return [steps, one](uint32_t rank, plait::Session& session, Outcome& o) {
    train(steps)(rank, session, o);
    o.norms = {loss_of_evaluation(session)};
    plait::merge(session);
    o.norms.push_back(loss_of_evaluation(session));
    for (const auto& [name, before] : o.weights)
      if (name.find("attn.out.weight") != std::string::npos && !is_adapter(name))
        CHECK(weights_of(session).at(name) != before);
    plait::unmerge(session);
    o.norms.push_back(loss_of_evaluation(session));
    CHECK(weights_of(session) == o.weights);
    plait::merge_adapter(session, one);
    o.norms.push_back(loss_of_evaluation(session));
    for (const auto& [name, values] : weights_of(session)) {
      CAPTURE(name);
      if (is_adapter(name) && name.find("." + one + ".") == std::string::npos)
        CHECK(values == o.weights.at(name));
    }
    plait::unmerge(session);
    CHECK(weights_of(session) == o.weights);
    plait::merge(session, PLAIT_MERGE_FINAL);
    session.step();
    o.norms.push_back(loss_of_evaluation(session));
  };
}

// tolerance: of the merged model, relative. The first of the grids is one rank.
void check_merges(const std::string& toml, const std::vector<std::string>& overrides,
                  double tolerance, const std::vector<Layout>& grids,
                  const std::string& one = "pissa") {
  JobSpec job_spec{toml, {"batch.eval=8", "run.steps=40"}, {}, {}};
  job_spec.overrides.insert(job_spec.overrides.end(), overrides.begin(), overrides.end());
  Weights initial;
  CAPTURE(job_spec.overrides.back());
  for (const Layout& layout : grids) {
    CAPTURE(layout.text());
    const auto got = run(on(job_spec, layout), layout.ranks(), train_and_merge(4, one));
    for (const Outcome& o : got)  // of ranks that only miss another one, last
      if (o.code != PLAIT_ERR_PEER) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
    for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
    if (initial.empty()) initial = got[0].initial;
    for (const Outcome& o : got) {
      // Also what follows from weights.
      CHECK(o.initial == initial);
      CHECK(o.norms[1] == doctest::Approx(o.norms[0]).epsilon(tolerance));
      CHECK(o.norms[2] == o.norms[0]);
      CHECK(o.norms[3] == doctest::Approx(o.norms[0]).epsilon(tolerance));
      CHECK(o.norms[4] != o.norms[0]);
      CHECK(o.norms == got[0].norms);
      CHECK(o.arena == o.planned);
    }
  }
}

}  // namespace

TEST_SUITE("adapters") {
  TEST_CASE("a Llama's adapters learn the same on every grid") {
    const Folder folder;
    check_grids(llama_model(folder), "f64", 1e-11, 10);
    check_grids(llama_model(folder), "f32", 1e-5, 20);
  }
  TEST_CASE("a GPT-2's, whose table is also its head") {
    const Folder folder;
    check_grids(gpt2_model(folder) + kBiases, "f64", 1e-11, 10);
  }
  TEST_CASE("in bf16") {
    const Folder folder;
    check_grids(llama_model(folder), "bf16", 2e-2, 10);
  }
  TEST_CASE("beside weights of 8 and 4 bits") {
    const Folder folder;
    // Tensor ranks that share the columns of a weight have other blocks, and so other numbers.
    const auto same_blocks = [](const Layout& layout) { return layout.tensor == 1; };
    check_grids(llama_model(folder), "f64", 1e-11, 10, "nf4", same_blocks);
    check_grids(llama_model(folder), "f32", 1e-5, 10, "int8", same_blocks);
    check_grids(llama_model(folder), "bf16", 2e-2, 10, "nf4", same_blocks);
    check_grids(llama_model(folder), "f32", 2e-2, 10, "int8",
                [](const Layout& layout) { return layout.tensor > 1; });
  }
  TEST_CASE("merged into a Llama on every grid, and taken back") {
    const Folder folder;
    const std::string toml = llama_model(folder) + kMerged + kMergedTables;
    std::vector<Layout> all = few_layouts();
    all.insert(all.begin(), Layout{});
    const std::vector<Layout> some{{},
                                   {1, 2, 1, 3, "1f1b", 1, 2, "cheap"},
                                   {1, 1, 2, 0, "1f1b", 1, 16},
                                   {2, 1, 1, 0, "1f1b", 1, 4},
                                   {1, 2, 2, 1, "1f1b", 1, 4}};
    check_merges(toml, {"precision.compute=f32"}, 1e-5, some);
    check_merges(toml, {"precision.compute=bf16"}, 2e-2, some);
    check_merges(toml, {"precision.compute=bf16", "precision.split_master=true"}, 2e-2, some);
    check_merges(toml, {"precision.compute=bf16", "precision.frozen=compute"}, 2e-2, some);
    check_merges(toml, {"precision.compute=bf16", "precision.master=false"}, 2e-2, some);
    check_merges(toml, {"precision.compute=f64"}, 1e-12, all);
  }
  TEST_CASE("of experts, each with a change of its own; merged, and taken back") {
    const Folder folder;
    const std::string toml = experts_model(folder) + kOfExperts;
    const std::vector<Layout> some{{},
                                   {1, 1, 2},
                                   {1, 2, 1, 3, "1f1b", 1, 4, "cheap"},
                                   {2, 1, 2, 0, "1f1b", 1, 4, "layer"},
                                   {1, 2, 2, 1, "1f1b", 1, 4}};
    const JobSpec job_spec{toml, {"batch.eval=8", "precision.compute=f64"}, {}, {}};
    const Outcome expected = alone(job_spec, 6);
    check_frozen(expected);
    for (const Layout& layout : some) {
      CAPTURE(layout.text());
      const auto got = run(on(job_spec, layout), layout.ranks(), train(6));
      for (const Outcome& o : got) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
      CHECK(got[0].initial == expected.initial);
      check_metrics(got[0], expected, 1e-10);
      check_frozen(got[0]);
    }
    check_merges(toml, {"precision.compute=f64"}, 1e-12, some, "lora");
    check_merges(toml, {"precision.compute=bf16"}, 2e-2, {{}, {1, 1, 2}}, "lora");
    // Dropout of rows alone: what is 0 depends on token and expert, not on where the row lies.
    JobSpec rows = job_spec;
    rows.overrides.emplace_back(
        "model.adapters[0].match=[\"*.mlp.up.weight\", \"*.mlp.down.weight\"]");
    JobSpec whole = rows;
    whole.overrides.emplace_back("model.adapters[0].dropout=0");
    const Outcome dropped = alone(rows, 6);
    CHECK(dropped.losses != alone(whole, 6).losses);
    for (const Layout& layout : some) {
      CAPTURE(layout.text());
      check_same(run(on(rows, layout), layout.ranks(), train(6)), dropped, 1e-10);
    }
    // A row of an expert is of no sample whose adapter it could take.
    const auto refused = run({toml,
                              {"batch.eval=8", "model.adapter_field=label",
                               "model.adapters[0].match=[\"*.mlp.up.weight\"]"},
                              {},
                              {}},
                             1, train(1));
    CHECK(refused[0].error.find("multiplies rows of all samples, sorted into groups") !=
          std::string::npos);
  }
  TEST_CASE("merged into weights of 4 bits, and taken back to the bit") {
    const Folder folder;
    // What is merged is rounded to the levels again.
    check_merges(llama_model(folder) + kMerged, {"precision.frozen=nf4"}, 0.1,
                 {{}, {1, 2, 1, 3, "1f1b", 1, 2, "cheap"}, {2, 1, 1, 0, "1f1b", 1, 4}});
  }
  TEST_CASE("merged into a GPT-2, whose table is also its head") {
    const Folder folder;
    const std::string model = gpt2_model(folder) + kMerged;
    check_merges(model + kBiases, {"precision.compute=f64"}, 1e-12,
                 {{}, {1, 2, 2, 1, "1f1b", 1, 4}, {2, 1, 1, 0, "zero_bubble", 1, 4, "layer"}});
    const auto refused =
        run({model + kMergedTables, {"batch.eval=8", "run.steps=40"}, {}, {}}, 1,
            [](uint32_t, plait::Session& session, Outcome&) { plait::merge(session); });
    CHECK(refused[0].code == PLAIT_ERR_CONFIG);
    CHECK(refused[0].error.find("is read by 'model.head' as well") != std::string::npos);
  }
  TEST_CASE("in bf16 beside weights of bf16 alone") {
    const Folder folder;
    check_grids(llama_model(folder), "bf16", 2e-2, 10, "compute");
    check_grids(gpt2_model(folder) + kBiases, "f16", 2e-2, 10, "compute");
  }
}

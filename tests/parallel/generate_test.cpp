// Generation on tensor ranks and replicas, and on a device that works by itself: the tokens and
// log-probabilities of one rank.
#include <plait/generate.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr int kSteps = 3;

// Trains, generates from three prompts on two slots, trains, generates: ids go to `losses`,
// log-probabilities to `norms`.
void train_and_generate(uint32_t, plait::Session& session, Outcome& outcome) {
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kSteps; ++i) session.step();
    plait::Generator generator(session);
    // The host draws the tokens of sequences with a penalty, the device all others.
    plait_sampling penalized{sizeof penalized, 0.7, 0, 0, 1.2, 5, 3}, plain = penalized;
    plain.repetition_penalty = 0, plain.top_p = 0.9;
    plait_prompt prompt{};
    prompt.log_probabilities = 1;
    for (const std::vector<int32_t>& ids :
         {std::vector<int32_t>{3}, std::vector<int32_t>{1, 2, 3, 4, 5},
          std::vector<int32_t>{7, 12}}) {
      prompt.sampling = ids.size() == 1 ? &penalized : &plain;
      generator.add(std::span<const int32_t>(ids), prompt);
    }
    while (generator.step([&](const plait_token& t) {
      outcome.losses.push_back(t.id);
      outcome.norms.push_back(t.log_probability);
      return true;
    }) > 0) {
    }
  }
}

// Gives adapters values that change what the model says, and generates five tokens of one prompt:
// of the base, of "poems" and of "code", in this order.
void generate_by_adapter(uint32_t, plait::Session& session, Outcome& outcome) {
  int salt = 0;
  for (const auto& [name, zeros] : weights_of(session)) {
    if (!name.ends_with(".poems.b") && !name.ends_with(".code.b")) continue;
    std::vector<double> values(zeros.size());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 0.5 * std::sin(1.37 * static_cast<double>(i) + ++salt);
    session.write(name, std::span<const double>(values));
  }
  plait::Generator generator(session);
  std::vector<std::pair<std::vector<double>, std::vector<double>>> of(3);
  std::vector<uint64_t> sequences;
  const std::vector<int32_t> ids{1, 2, 3};
  for (const char* name : {static_cast<const char*>(nullptr), "poems", "code"}) {
    plait_prompt prompt{};
    prompt.log_probabilities = 1;
    prompt.max_tokens = 5;
    prompt.adapter = name;
    sequences.push_back(generator.add(std::span<const int32_t>(ids), prompt));
  }
  while (generator.step([&](const plait_token& t) {
    const auto at = std::find(sequences.begin(), sequences.end(), t.sequence) - sequences.begin();
    of[static_cast<size_t>(at)].first.push_back(t.id);
    of[static_cast<size_t>(at)].second.push_back(t.log_probability);
    return true;
  }) > 0) {
  }
  for (const auto& [tokens, probabilities] : of) {
    outcome.losses.insert(outcome.losses.end(), tokens.begin(), tokens.end());
    outcome.norms.insert(outcome.norms.end(), probabilities.begin(), probabilities.end());
  }
}

Outcome generated(JobSpec job_spec, const Layout& layout, const char* device) {
  job_spec.overrides.insert(job_spec.overrides.end(), {"generate.slots=2", "generate.chunk=2",
                                                       std::string("run.device=") + device});
  const std::vector<Outcome> all =
      run(on(job_spec, layout), static_cast<uint32_t>(layout.ranks()), train_and_generate);
  for (const Outcome& o : all) {
    CHECK(o.error == "");
    CHECK(o.losses == all[0].losses);
    CHECK(o.norms == all[0].norms);  // the same bits
  }
  return all[0];
}

void check_same_text(const Outcome& many, const Outcome& one) {
  CHECK(many.losses == one.losses);
  REQUIRE(many.norms.size() == one.norms.size());
  for (size_t i = 0; i < one.norms.size(); ++i)  // logits are f32
    CHECK(many.norms[i] == doctest::Approx(one.norms[i]).epsilon(1e-5));
}

TEST_SUITE("generate") {
  TEST_CASE("tensor ranks and replicas generate what one rank does") {
    const Folder folder;
    for (const char* device : {"cpu", "reference"}) {
      const JobSpec job_spec{
          transformer_model(folder), {"precision.compute=f64", "batch.eval=8"}, {}, {}};
      const Outcome one = generated(job_spec, {1, 1, 1}, device);
      REQUIRE(one.losses.size() == 20);
      Layout sequence{1, 1, 2};
      sequence.sequence = true;
      for (const Layout& layout :
           {Layout{1, 1, 2}, Layout{1, 1, 4}, sequence, Layout{1, 2, 1, 3}, Layout{1, 2, 2, 1}}) {
        CAPTURE(device);
        CAPTURE(layout.text());
        check_same_text(generated(job_spec, layout, device), one);
      }
    }
  }

  TEST_CASE("experts: tensor ranks and replicas generate what one rank does") {
    const Folder folder;
    const JobSpec job_spec{
        experts_model(folder), {"precision.compute=f64", "batch.eval=8"}, {}, {}};
    for (const char* device : {"cpu", "reference"}) {
      const Outcome one = generated(job_spec, {1, 1, 1}, device);
      REQUIRE(one.losses.size() == 20);
      for (const Layout& layout : {Layout{1, 1, 2}, Layout{1, 1, 4}, Layout{1, 2, 1, 3}}) {
        CAPTURE(device);
        CAPTURE(layout.text());
        check_same_text(generated(job_spec, layout, device), one);
      }
    }
  }

  // Parts along columns are multiples of 32 of them, so that all ranks have the whole's numbers.
  TEST_CASE("int8 weights: tensor ranks and replicas generate what one rank does") {
    const Folder folder;
    std::string toml = transformer_model(folder);
    const size_t model = toml.find("[model]"), end = toml.find("[loss]");
    toml.replace(model, end - model,
                 R"([model]
layers = [
  {type = "embedding", name = "ids", vocabulary = 13, width = 64, std = 0.3},
  {type = "decoder_block", repeat = 2, heads = 4, ffn = 128, std = 0.2, parallel = "heads"},
  {type = "linear", name = "head", out = 13, bias = false, parallel = "column",)"
                 R"( tie = {weight = "model.ids.weight"}},
]
)");
    for (const char* device : {"cpu", "reference"}) {
      JobSpec job_spec{toml, {"precision.compute=f64", "batch.eval=8"}, {}, {}};
      const Outcome exact = generated(job_spec, {1, 1, 1}, device);
      job_spec.overrides.emplace_back("generate.weights=int8");
      const Outcome one = generated(job_spec, {1, 1, 1}, device);
      REQUIRE(one.losses.size() == 20);
      CHECK(one.norms != exact.norms);
      for (const Layout& layout : {Layout{1, 1, 2}, Layout{1, 2, 1, 3}, Layout{1, 2, 2, 1}}) {
        CAPTURE(device);
        CAPTURE(layout.text());
        const Outcome many = generated(job_spec, layout, device);
        CHECK(many.losses == one.losses);
        REQUIRE(many.norms.size() == one.norms.size());
        for (size_t i = 0; i < one.norms.size(); ++i)
          CHECK(many.norms[i] == doctest::Approx(one.norms[i]).epsilon(1e-5));
      }
    }
  }

  // The sequences have up to 8 tokens, so all get longer than the limit.
  TEST_CASE("longrope: tensor ranks generate what one rank does, beyond its limit, too") {
    const Folder folder;
    const auto with_limit = [&](int limit) {
      std::string toml = transformer_model(folder);
      const size_t model = toml.find("[model]"), end = toml.find("[loss]");
      toml.replace(model, end - model,
                   R"([model]
layers = [
  {type = "embedding", name = "ids", vocabulary = 13, width = 16, std = 0.3},
  {type = "decoder_block", repeat = 2, heads = 4, kv_heads = 2, ffn = 24, std = 0.4,)"
                   R"( parallel = "heads", rope = "half", rope_scaling = "longrope",)"
                   R"( rope_factor = 4.0, rope_attention = 1.25, rope_short = [1.0, 1.25],)"
                   R"( rope_long = [2.0, 9.0], rope_original = )" +
                       std::to_string(limit) +
                       R"(},
  {type = "linear", name = "head", out = 13, bias = false, parallel = "column",)"
                       R"( tie = {weight = "model.ids.weight"}},
]
)");
      return JobSpec{toml, {"precision.compute=f64", "batch.eval=8"}, {}, {}};
    };
    for (const char* device : {"cpu", "reference"}) {
      CAPTURE(device);
      const JobSpec job_spec = with_limit(4);
      const Outcome one = generated(job_spec, {1, 1, 1}, device);
      REQUIRE(one.losses.size() == 20);
      CHECK(one.norms != generated(with_limit(7), {1, 1, 1}, device).norms);
      for (const Layout& layout : {Layout{1, 1, 2}, Layout{1, 1, 4}, Layout{1, 2, 2, 1}}) {
        CAPTURE(layout.text());
        check_same_text(generated(job_spec, layout, device), one);
      }
    }
  }

  TEST_CASE("a device that works by itself generates the bits of reference") {
    const Folder folder;
    JobSpec job_spec{transformer_model(folder), {"batch.eval=8"}, {}, {}};
    const Outcome expected = generated(job_spec, {1, 1, 1}, "reference");
    job_spec.overrides.emplace_back("device.pinned_only=true");
    job_spec.plugins.push_back(ASYNC_DEVICE);
    const Outcome got = generated(job_spec, {1, 1, 1}, "async");
    CHECK(got.losses == expected.losses);
    CHECK(got.norms == expected.norms);
  }

  // As of a plugin that is older than the op draw_tokens.
  TEST_CASE("on a device that draws no tokens the host draws the same") {
    const Folder folder;
    JobSpec job_spec{transformer_model(folder), {"batch.eval=8"}, {}, {}};
    const auto ids = [&](const char* without) {
      if (without) REQUIRE(setenv("ASYNC_DEVICE_WITHOUT", without, 1) == 0);
      const Outcome o = generated(job_spec, {1, 1, 1}, "async");
      unsetenv("ASYNC_DEVICE_WITHOUT");
      return o;
    };
    job_spec.plugins.push_back(ASYNC_DEVICE);
    const Outcome expected = ids(nullptr), got = ids("draw_tokens");
    CHECK(expected.losses.size() >= 20);
    CHECK(got.norms != expected.norms);  // log-probabilities in f64: the host did draw
    check_same_text(got, expected);
  }

  TEST_CASE("a cancel on one rank ends the sequences of all") {
    const Folder folder;
    const JobSpec job_spec{transformer_model(folder), {"batch.eval=8", "generate.slots=1"}, {}, {}};
    const std::vector<Outcome> all =
        run(on(job_spec, {1, 1, 2}), 2, [](uint32_t rank, plait::Session& session, Outcome& o) {
          plait::Generator generator(session);
          const int32_t ids[] = {1, 2};
          generator.add(std::span<const int32_t>(ids));
          const auto note = [&](const plait_token& t) {
            o.losses.push_back(t.finish);
            return true;
          };
          generator.step(note);
          if (rank == 1) session.cancel();
          while (generator.step(note) > 0) {
          }
        });
    for (const Outcome& o : all) {
      CHECK(o.error == "");
      CHECK(o.losses == std::vector<double>{PLAIT_FINISH_NONE, PLAIT_FINISH_CANCELLED});
    }
  }

  TEST_CASE("int8 weights of ZeRO 3 follow what hosts write through views") {
    const Folder folder;
    const JobSpec job_spec{transformer_model(folder),
                           {"batch.eval=8", "generate.only=true", "generate.length=8",
                            "generate.slots=1", "generate.weights=int8"},
                           {},
                           {}};
    const std::vector<Outcome> all =
        run(on(job_spec, {1, 2, 1, 3}), 2, [](uint32_t, plait::Session& session, Outcome& o) {
          plait::Generator generator(session);
          plait_dl_managed* view = nullptr;
          for (int round = 0; round < 3; ++round) {
            const int32_t ids[] = {1, 2, 3};
            plait_prompt prompt{};
            prompt.max_tokens = prompt.log_probabilities = 1;
            generator.add(std::span<const int32_t>(ids), prompt);
            generator.step([&](const plait_token& t) {
              o.losses.push_back(t.log_probability);
              return true;
            });
            if (round == 0)
              plait_error_free(plait_session_view(session.get(), "model.ids.weight", &view));
            if (!view) break;
            auto* values = static_cast<float*>(view->tensor.data);
            for (int64_t i = 0; round < 1 && i < 13 * 16; ++i) values[i] *= 3;
          }
          if (view) view->deleter(view);
        });
    for (const Outcome& o : all) {
      CHECK(o.error == "");
      REQUIRE(o.losses.size() == 3);
      CHECK(std::abs(o.losses[0] - o.losses[1]) > 1e-3);
      CHECK(o.losses[1] == o.losses[2]);
    }
  }

  // No rank writes; rank 1 alone has a view, and all make the weights again.
  TEST_CASE("int8 weights of ZeRO 3 in bf16: a view on one rank, and none, as on one rank") {
    const Folder folder;
    const JobSpec job_spec{transformer_model(folder),
                           {"batch.eval=8", "generate.only=true", "generate.length=8",
                            "generate.slots=1", "generate.weights=int8", "precision.compute=bf16"},
                           {},
                           {}};
    const auto generate = [](uint32_t rank, plait::Session& session, Outcome& o) {
      plait::Generator generator(session);
      plait_dl_managed* view = nullptr;
      for (int round = 0; round < 3; ++round) {
        const int32_t ids[] = {1, 2, 3};
        plait_prompt prompt{};
        prompt.max_tokens = prompt.log_probabilities = 2;
        generator.add(std::span<const int32_t>(ids), prompt);
        while (generator.step([&](const plait_token& t) {
          o.losses.push_back(t.log_probability);
          return true;
        }) > 0) {
        }
        if (round == 0 && rank == 1)
          plait_error_free(plait_session_view(session.get(), "model.ids.weight", &view));
        if (round == 1 && view) view->deleter(view);
      }
      o.norms.push_back(view ? 1 : 0);
    };
    const std::vector<Outcome> one = run(on(job_spec, {1, 1, 1, 0}), 1, generate);
    REQUIRE_MESSAGE(one[0].error == "", one[0].error);
    REQUIRE(one[0].losses.size() == 6);
    const std::vector<Outcome> all = run(on(job_spec, {1, 2, 1, 3}), 2, generate);
    for (const Outcome& o : all) {
      CHECK(o.error == "");
      CHECK(o.losses == one[0].losses);
    }
    CHECK(all[1].norms == std::vector<double>{1});
  }

  // While the view lives, nothing is reused, on the rank that has none as well. What was written
  // through it may have changed the parameters a last time.
  TEST_CASE("ranks reuse the same tokens of a prompt, also when one has a view of a parameter") {
    const Folder folder;
    const JobSpec job_spec{transformer_model(folder),
                           {"batch.eval=8", "generate.slots=1", "generate.prefix_caching=true"},
                           {},
                           {}};
    const std::vector<Outcome> all =
        run(on(job_spec, {1, 1, 2}), 2, [](uint32_t rank, plait::Session& session, Outcome& o) {
          plait::Generator generator(session);
          plait_dl_managed* view = nullptr;
          for (int round = 0; round < 5; ++round) {
            const int32_t ids[] = {1, 2, 3, 4, 5};
            plait_prompt prompt{};
            prompt.max_tokens = 1;
            generator.add(std::span<const int32_t>(ids), prompt);
            generator.step([&](const plait_token& t) {
              o.losses.push_back(static_cast<double>(t.n_reused));
              return true;
            });
            if (round == 1 && rank == 1)
              plait_error_free(plait_session_view(session.get(), "model.g0.mlp_norm.gain", &view));
            if (round == 2 && view) view->deleter(view);
          }
          o.norms.push_back(rank == 1 && !view ? 1 : 0);
        });
    for (const Outcome& o : all) {
      CHECK(o.error == "");
      CHECK(o.losses == std::vector<double>{0, 4, 0, 0, 4});
      CHECK(o.norms == std::vector<double>{0});
    }
  }

  TEST_CASE("with an adapter for each sequence, tensor ranks and replicas generate what one does") {
    const Folder folder;
    std::string toml = transformer_model(folder);
    toml.insert(toml.find("layers = ["), "adapter_field = \"adapter\"\n");
    for (const char* name : {"poems", "code"})
      toml += "[[model.adapters]]\ntype = \"lora\"\nname = \"" + std::string(name) +
              "\"\nmatch = [\"*.attn.*.weight\", \"*.mlp.*.weight\"]\nrank = 2\n";
    const JobSpec job_spec{
        toml,
        {"precision.compute=f64", "generate.only=true", "generate.slots=2", "generate.length=8"},
        {},
        {}};
    const auto generated = [&](const Layout& layout) {
      const auto all = run(on(job_spec, layout), layout.ranks(), generate_by_adapter);
      for (const Outcome& o : all) {
        CHECK(o.error == "");
        CHECK(o.losses == all[0].losses);
      }
      return all[0];
    };
    const Outcome one = generated({});
    REQUIRE(one.losses.size() == 15);
    const auto of = [&](size_t k) {
      return std::vector<double>(one.norms.begin() + static_cast<std::ptrdiff_t>(5 * k),
                                 one.norms.begin() + static_cast<std::ptrdiff_t>(5 * k + 5));
    };
    CHECK(of(0) != of(1));
    CHECK(of(1) != of(2));
    for (const Layout& layout : {Layout{1, 1, 2}, Layout{1, 2, 1, 3}, Layout{1, 2, 2, 1}}) {
      CAPTURE(layout.text());
      const Outcome many = generated(layout);
      CHECK(many.losses == one.losses);
      REQUIRE(many.norms.size() == one.norms.size());
      for (size_t i = 0; i < one.norms.size(); ++i)  // logits are f32
        CHECK(many.norms[i] == doctest::Approx(one.norms[i]).epsilon(1e-5));
    }
  }

  TEST_CASE("a pipeline does not generate, and says so") {
    const Folder folder;
    const JobSpec job_spec{transformer_model(folder), {"batch.eval=8", "generate.slots=1"}, {}, {}};
    std::string found;
    try {
      plan_of(on(job_spec, {2, 1, 1}), 2);
    } catch (const std::exception& e) {
      found = e.what();
    }
    CHECK(found.find("generate.slots: 1, with topology.pipeline = 2") != std::string::npos);
  }
}

}  // namespace

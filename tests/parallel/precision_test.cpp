// [precision] compute = "f64": parameters, gradients, states and losses in double, on every device
// and layout.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr double kStrict = 1e-10;

JobSpec in_f64(const std::string& toml, const char* device = "cpu") {
  return {
      toml, {"precision.compute=f64", std::string("run.device=") + device, "batch.eval=8"}, {}, {}};
}

// An optimizer's MLP with everything beside it: clipping, a schedule, weighted samples.
std::string with_optimizer(const Folder& folder, const std::string& keys) {
  std::string toml = model(folder);
  const std::string old = "type = \"adamw\"\nlearning_rate = 0.003\n";
  return toml.replace(
      toml.find(old), old.size(),
      keys + "schedule = { type = \"cosine\", total_steps = 20, warmup_steps = 2 }\n");
}

TEST_SUITE("precision") {
  TEST_CASE("f64 on cpu and reference: every optimizer, the same to the last digits") {
    const Folder folder;
    for (const char* keys :
         {"type = \"sgd\"\nlearning_rate = 0.05\nmomentum = 0.9\nnesterov = true\n",
          "type = \"adam\"\nlearning_rate = 0.003\n",
          "type = \"adamw\"\nlearning_rate = 0.003\nweight_decay = 0.1\n",
          "type = \"adagrad\"\nlearning_rate = 0.01\n",
          "type = \"rmsprop\"\nlearning_rate = 0.001\ncentered = true\nmomentum = 0.5\n",
          "type = \"lion\"\nlearning_rate = 0.0003\n", "type = \"muon\"\nlearning_rate = 0.01\n",
          "type = \"adafactor\"\nlearning_rate = 0.01\n",
          "type = \"lamb\"\nlearning_rate = 0.01\n"}) {
      CAPTURE(keys);
      const std::string toml = with_optimizer(folder, keys);
      const Outcome cpu = alone(in_f64(toml), 10);
      check_same(run(in_f64(toml, "reference"), 1, train(10)), cpu, kStrict);
      // It is double that was computed in: f32 is near, and not the same.
      const Outcome narrow = alone({toml, {"batch.eval=8"}, {}, {}}, 10);
      const double apart = std::abs(narrow.losses[0] - cpu.losses[0]) / cpu.losses[0];
      CHECK(apart > 1e-11);
      CHECK(apart < 1e-5);
    }
  }

  TEST_CASE("f64 on any layout: ZeRO, tensor, pipeline, recomputation, on both devices") {
    const Folder folder;
    for (const char* device : {"cpu", "reference"}) {
      const JobSpec job_spec = in_f64(deep_model(folder), device);
      const Outcome expected = alone(job_spec, 10);
      for (const Layout& layout :
           {Layout{1, 2, 1, 0}, Layout{1, 2, 1, 1}, Layout{1, 2, 2, 2}, Layout{1, 2, 1, 3},
            Layout{1, 1, 4}, Layout{2, 1, 1, 0, "gpipe"}, Layout{2, 2, 1, 3, "zero_bubble"},
            Layout{2, 1, 2, 0, "interleaved", 2}, Layout{4, 1, 1, 0, "1f1b", 1, 4, "stage"},
            Layout{1, 1, 1, 0, "1f1b", 1, 2, "layer"}}) {
        CAPTURE(device);
        CAPTURE(layout.text());
        check_same(run(on(job_spec, layout), layout.ranks(), train(10)), expected, kStrict);
      }
    }
  }

  TEST_CASE("f64 over each backend") {
    const Folder folder;
    const JobSpec job_spec = in_f64(vocabulary_model(folder, 13));
    const Outcome expected = alone(job_spec, 10);
    for (const char* comm : {"threads", "shm", "gloo"})
      for (const Layout& layout : {Layout{1, 2, 1, 0}, Layout{1, 2, 2, 3}, Layout{2, 1, 2}}) {
        CAPTURE(comm);
        CAPTURE(layout.text());
        JobSpec there = on(job_spec, layout);
        there.overrides.push_back(std::string("topology.backend=") + comm);
        check_same(run(there, layout.ranks(), train(10)), expected, kStrict);
      }
  }

  // One rank and several round in different places: sums of ranks are f32, terms are not.
  TEST_CASE("bf16 on any layout is near one rank in bf16, and all ranks see the same") {
    // Biases are small sums of gradients, which products of bf16 in attention round once more.
    constexpr double kNear = 0.03;
    const Folder folder;
    for (const std::string& toml :
         {transformer_model(folder), vocabulary_model(folder, 13), deep_model(folder)}) {
      JobSpec job_spec{
          toml, {"precision.compute=bf16", "batch.eval=8", "optimizer.type=sgd"}, {}, {}};
      const Outcome expected = alone(job_spec, 4);
      for (const Layout& layout :
           {Layout{1, 2, 1, 0}, Layout{1, 2, 1, 1}, Layout{1, 2, 2, 2, "1f1b", 1, 4, "cheap"},
            Layout{1, 2, 1, 3}, Layout{1, 1, 2}, Layout{2, 1, 1, 0, "gpipe"},
            Layout{2, 2, 1, 1, "zero_bubble", 1, 4, "cheap"},
            Layout{1, 1, 2, 0, "1f1b", 1, 2, "layer", true}}) {
        CAPTURE(layout.text());
        check_same(run(on(job_spec, layout), layout.ranks(), train(4)), expected, kNear);
      }
    }
  }

  TEST_CASE("weights of bf16 alone: a tied, uneven table is near one rank on any layout") {
    constexpr double kNear = 0.03;
    const Folder folder;
    JobSpec job_spec{
        vocabulary_model(folder, 13),
        {"precision.compute=bf16", "precision.master=false", "batch.eval=8", "optimizer.type=sgd"},
        {},
        {}};
    const Outcome expected = alone(job_spec, 4);
    for (const Layout& layout : {Layout{1, 2, 1, 0}, Layout{1, 2, 2, 2}, Layout{1, 2, 1, 3},
                                 Layout{2, 1, 2, 0, "gpipe"}}) {
      CAPTURE(layout.text());
      check_same(run(on(job_spec, layout), layout.ranks(), train(4)), expected, kNear);
    }
  }

  // What a step takes of a weight is far above its gradient here, so every layout makes the same
  // numbers to be rounded.
  void check_rounded_alike(const std::string& toml, const std::string& optimizer,
                           const std::vector<std::string>& overrides,
                           const std::vector<Layout>& layouts) {
    JobSpec job_spec{toml,
                     {"batch.eval=8", "optimizer.type=" + optimizer,
                      "optimizer.learning_rate=8.673617379884035e-19",
                      "optimizer.weight_decay=1125899906842624.0", "optimizer.clip_grad_norm=0"},
                     {},
                     {}};
    job_spec.overrides.insert(job_spec.overrides.end(), overrides.begin(), overrides.end());
    job_spec.plugins = {HEAVY_BALL};
    const Outcome expected = alone(job_spec, 4);
    CHECK(expected.weights != expected.initial);
    for (const Layout& layout : layouts) {
      CAPTURE(optimizer);
      CAPTURE(layout.text());
      for (const Outcome& o : run(on(job_spec, layout), layout.ranks(), train(4))) {
        REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
        CHECK(o.initial == expected.initial);
        for (const auto& weight : expected.weights) {
          const std::string& name = weight.first;
          const std::vector<double>& values = weight.second;
          CAPTURE(name);
          // Biases are f32; some begin with 0 or have another rate, so their gradients count.
          if (!name.ends_with("bias")) CHECK(o.weights.at(name) == values);
        }
      }
    }
  }

  TEST_CASE("weights of bf16 alone are rounded alike on any layout, to the bit") {
    const Folder folder;
    for (const std::string& toml :
         {transformer_model(folder), vocabulary_model(folder, 13), deep_model(folder)})
      check_rounded_alike(
          toml, "sgd", {"precision.compute=bf16", "precision.master=false"},
          {Layout{1, 2, 1, 0}, Layout{1, 2, 1, 1}, Layout{1, 2, 2, 2}, Layout{1, 2, 1, 3},
           Layout{1, 1, 2}, Layout{1, 1, 4}, Layout{2, 1, 1, 0, "gpipe"},
           Layout{2, 2, 1, 1, "zero_bubble"}, Layout{1, 1, 2, 0, "1f1b", 1, 2, "layer", true}});
    // Whole parameters, each of one replica.
    check_rounded_alike(
        vocabulary_model(folder, 13), "muon", {"precision.compute=bf16", "precision.master=false"},
        {Layout{1, 2, 1, 0}, Layout{1, 2, 1, 1}, Layout{1, 2, 1, 3}, Layout{1, 1, 2}});
  }

  // sgd adds the decay to what its momentum averages, so weights follow the rounded states.
  TEST_CASE("states of bf16 are rounded alike on any layout, to the bit") {
    const Folder folder;
    const std::string toml = vocabulary_model(folder, 13);
    const std::vector<Layout> layouts{Layout{1, 2, 1, 0}, Layout{1, 2, 1, 1}, Layout{1, 2, 2, 2},
                                      Layout{1, 2, 1, 3}, Layout{1, 1, 4},    Layout{2, 1, 1, 0},
                                      Layout{1, 1, 2, 0}};
    for (const std::vector<std::string>& how :
         {std::vector<std::string>{},
          {"precision.compute=bf16"},
          {"precision.compute=bf16", "precision.split_master=true"},
          {"precision.compute=bf16", "precision.master=false"}}) {
      std::vector<std::string> overrides = how;
      overrides.insert(overrides.end(), {"precision.states=bf16", "optimizer.momentum=0.9"});
      CAPTURE(overrides);
      check_rounded_alike(toml, "sgd", overrides, layouts);
    }
    // Its states are old weights, of flat shards and of whole tensors.
    for (const char* tensor : {"false", "true"})
      check_rounded_alike(toml, "heavy_ball",
                          {"precision.states=bf16", std::string("optimizer.tensor=") + tensor},
                          layouts);
  }

  // Weights of two or more dimensions have f32 gradients and so the same numbers up to rounding,
  // where one in some hundred is then rounded to the other neighbour.
  TEST_CASE("states of bf16: every optimizer is near itself with f32 on any layout") {
    constexpr double kNear = 0.02;
    const Folder folder;
    for (const char* keys :
         {"type = \"adamw\"\nlearning_rate = 0.003\nweight_decay = 0.1\n",
          "type = \"adagrad\"\nlearning_rate = 0.01\n",
          "type = \"rmsprop\"\nlearning_rate = 0.001\ncentered = true\nmomentum = 0.5\n",
          "type = \"muon\"\nlearning_rate = 0.01\n", "type = \"lamb\"\nlearning_rate = 0.01\n"}) {
      CAPTURE(keys);
      JobSpec job_spec{with_optimizer(folder, keys), {"batch.eval=8"}, {}, {}};
      const Outcome expected = alone(job_spec, 10);
      job_spec.overrides.emplace_back("precision.states=bf16");
      for (const Layout& layout :
           {Layout{1, 1, 1}, Layout{1, 2, 1, 1}, Layout{1, 1, 2}, Layout{1, 2, 1, 3}}) {
        CAPTURE(layout.text());
        check_same(run(on(job_spec, layout), layout.ranks(), train(10)), expected, kNear);
      }
    }
  }

  TEST_CASE("a rule over tensors keeps a state in f32 by a shape that is not the parameter's") {
    const Folder folder;
    JobSpec job_spec{with_optimizer(folder,
                                    "type = \"heavy_ball\"\ntensor = true\nexact = true\n"
                                    "learning_rate = 0.05\n"),
                     {"batch.eval=8"},
                     {},
                     {}};
    job_spec.plugins = {HEAVY_BALL};
    const Outcome expected = alone(job_spec, 6);
    job_spec.overrides.emplace_back("precision.states=bf16");
    CHECK(alone(job_spec, 6).weights == expected.weights);
    job_spec.overrides.emplace_back("optimizer.exact=false");
    CHECK(alone(job_spec, 6).weights != expected.weights);
    // Tensor ranks share such a state as they share the parameter.
    job_spec.overrides.back() = "optimizer.exact=true";
    check_same(run(on(job_spec, Layout{1, 2, 2, 1}), 4, train(6)), expected, 1e-5);
  }

  // Decay makes the gradients of a weight nearly equal from step to step. What they differ by is
  // below the last bit of their mean square in bf16, and decides how far rmsprop goes.
  TEST_CASE("states of bf16: centered rmsprop keeps a variance far below the mean square") {
    const Folder folder;
    JobSpec job_spec{
        with_optimizer(folder,
                       "type = \"rmsprop\"\nlearning_rate = 0.00001\nweight_decay = 2.0\n"
                       "alpha = 0.5\ncentered = true\n"),
        {"batch.eval=8"},
        {},
        {}};
    const Outcome expected = alone(job_spec, 20);
    job_spec.overrides.emplace_back("precision.states=bf16");
    check_same(run(job_spec, 1, train(20)), expected, 0.02);
  }

  TEST_CASE("states of bf16 take half the memory, and f32 ones of a checkpoint are read as such") {
    const Folder folder;
    const JobSpec wide{model(folder), {"batch.eval=8"}, {}, {}};
    JobSpec low = wide;
    low.overrides.emplace_back("precision.states=bf16");
    const auto memory = [&](const std::vector<std::string>& keys) {
      const JobSpec large{vocabulary_model(folder, 1000), keys, {}, {}};
      return nlohmann::json::parse(plan_of(large, 1))["memory"]["optimizer"].get<double>();
    };
    const double ratio = memory({"precision.states=bf16"}) / memory({});
    CHECK(ratio >= 0.5);
    CHECK(ratio < 0.6);  // biases stay as they are, and lines are filled up
    const std::string path = folder / "saved";
    const auto saved = run(wide, 1, [&](uint32_t, plait::Session& s, Outcome&) {
      for (int k = 0; k < 4; ++k) s.step();
      s.save(path);
    });
    REQUIRE_MESSAGE(saved[0].code == PLAIT_OK, saved[0].error);
    const auto go_on = [&](uint32_t rank, plait::Session& s, Outcome& o) {
      s.load(path);
      train(8)(rank, s, o);
    };
    check_same(run(low, 1, go_on), run(wide, 1, go_on)[0], 0.02);
  }

  TEST_CASE("a teacher, shapes and norms in f64") {
    const Folder folder;
    for (const std::string& toml : {distillation_model(folder), mixed_model(folder)}) {
      const JobSpec job_spec = in_f64(toml);
      const Outcome expected = alone(job_spec, 10);
      for (const Layout& layout : {Layout{1, 1, 2}, Layout{2, 2, 1, 2, "zero_bubble"}}) {
        CAPTURE(layout.text());
        check_same(run(on(job_spec, layout), layout.ranks(), train(10)), expected, kStrict);
      }
    }
  }

  TEST_CASE("checkpoints of f64 go on on other layouts") {
    const Folder folder;
    const JobSpec job_spec = in_f64(deep_model(folder));
    Outcome expected = alone(job_spec, 12);
    expected.losses.erase(expected.losses.begin(), expected.losses.begin() + 4);
    expected.norms.erase(expected.norms.begin(), expected.norms.begin() + 4);
    expected.initial.clear();
    const std::vector<Layout> all{
        {1, 2, 2, 3}, {2, 1, 1, 0, "zero_bubble"}, {1, 1, 1}, {1, 2, 1, 1}};
    for (size_t i = 0; i < all.size(); ++i) {
      const Layout &from = all[i], &to = all[(i + 1) % all.size()];
      CAPTURE(from.text());
      CAPTURE(to.text());
      const std::string path = folder / ("saved" + std::to_string(i));
      const auto saved =
          run(on(job_spec, from), from.ranks(), [&](uint32_t, plait::Session& s, Outcome&) {
            for (int k = 0; k < 4; ++k) s.step();
            s.save(path);
          });
      for (const Outcome& o : saved) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
      const auto go_on = [&](uint32_t rank, plait::Session& s, Outcome& o) {
        s.load(path);
        train(8)(rank, s, o);
      };
      check_same(run(on(job_spec, to), to.ranks(), go_on), expected, kStrict);
    }
  }

  TEST_CASE("a background save of f64 is resumed from, bit for bit") {
    const Folder folder;
    JobSpec job_spec = in_f64(model(folder));
    for (const char* o : {"checkpoint.every=3", "run.steps=6", "run.resume=auto"})
      job_spec.overrides.emplace_back(o);
    job_spec.settings = [&](uint32_t) {
      plait::SessionSettings s;
      s.run_dir = folder / "run";
      return s;
    };
    const auto to_end = [](uint32_t, plait::Session& s, Outcome& o) {
      s.run();
      std::vector<double> w(16 * 16);
      s.read("model.first.weight", std::span<double>(w));
      o.weights["w"] = w;
    };
    const auto whole = run(job_spec, 1, to_end);
    REQUIRE_MESSAGE(whole[0].code == PLAIT_OK, whole[0].error);
    const auto again = run(job_spec, 1, [](uint32_t, plait::Session& s, Outcome& o) {
      o.samples = nlohmann::json::parse(s.describe())["step"];
      std::vector<double> w(16 * 16);
      s.read("model.first.weight", std::span<double>(w));
      o.weights["w"] = w;
    });
    REQUIRE_MESSAGE(again[0].code == PLAIT_OK, again[0].error);
    CHECK(again[0].samples == 6);
    CHECK(again[0].weights == whole[0].weights);
  }

  TEST_CASE(
      "hosts read, write and view doubles, and predictions are such; half the bytes are refused") {
    const Folder folder;
    const JobSpec job_spec = in_f64(model(folder));
    const double third = 1.0 / 3;
    for (const Layout& layout : {Layout{1, 1, 1}, Layout{1, 2, 2, 3}, Layout{2, 1, 1}}) {
      CAPTURE(layout.text());
      const auto outcomes =
          run(on(job_spec, layout), layout.ranks(), [&](uint32_t, plait::Session& s, Outcome& o) {
            const std::string name = "model.first.weight";
            const std::vector<double> given(16 * 16, third);
            s.write(name, std::span<const double>(given));
            std::vector<double> found(given.size());
            s.read(name, std::span<double>(found));
            o.weights["found"] = found;
            const int64_t rows = 8 / layout.data;  // of each replica
            const std::vector<float> x(static_cast<size_t>(rows) * 16, 0.25F);
            std::vector<double> y(static_cast<size_t>(rows) * 4);
            const plait::Feed feed("input", std::span<const float>(x), {rows, 16});
            o.code = 0;
            s.predict(std::span(&feed, 1), "output", std::span<double>(y));
            o.losses = y;
            if (layout.ranks() == 1) {
              const auto view = s.view(name);
              o.samples = view.tensor().dtype.bits;
              o.norms = {static_cast<const double*>(view.tensor().data)[5]};
            }
          });
      for (const Outcome& o : outcomes) {
        REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
        CHECK(o.weights.at("found") == std::vector<double>(16 * 16, third));
        CHECK(std::all_of(o.losses.begin(), o.losses.end(), [](double v) {
          return v != 0 && std::isfinite(v) && v != static_cast<float>(v);
        }));
      }
      if (layout.ranks() > 1) continue;
      CHECK(outcomes[0].samples == 64);
      CHECK(outcomes[0].norms[0] == third);
    }
    const auto refused = run(job_spec, 1, [](uint32_t, plait::Session& s, Outcome&) {
      std::vector<float> narrow(16 * 16);
      s.read("model.first.weight", std::span<float>(narrow));
    });
    CHECK(refused[0].code == PLAIT_ERR_INVALID);
    CHECK(refused[0].error.find("is f64 (16, 16), 2048 bytes; the call gives 1024") !=
          std::string::npos);
  }

  TEST_CASE("the plan of f64 takes twice the memory for parameters, gradients and states") {
    const Folder folder;
    const auto memory = [&](const char* type) {
      const JobSpec job_spec{model(folder), {std::string("precision.compute=") + type}, {}, {}};
      return nlohmann::json::parse(plan_of(job_spec, 1))["memory"];
    };
    const auto narrow = memory("f32"), wide = memory("f64");
    for (const char* part : {"parameters", "gradients", "optimizer"}) {
      CAPTURE(part);
      const double ratio = wide[part].get<double>() / narrow[part].get<double>();
      CHECK(ratio > 1.8);  // padding to whole lines is of bytes, not of elements
      CHECK(ratio <= 2);
    }
  }

  TEST_CASE("another type is refused with those that there are") {
    const Folder folder;
    std::string text;
    try {
      plan_of({model(folder), {"precision.compute=fp8"}, {}, {}}, 1);
    } catch (const plait::HostError& e) {
      text = e.what();
    }
    CAPTURE(text);
    CHECK(text.find("precision.compute") != std::string::npos);
    CHECK(text.find("found \"fp8\"") != std::string::npos);
    CHECK(text.find("\"f32\" | \"f64\" | \"bf16\" | \"f16\"") != std::string::npos);
  }
}

}  // namespace

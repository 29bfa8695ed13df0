// Optimizers that see whole tensors: the same on every layout, with each sort of state, in
// checkpoints, and with what the engine does around an optimizer. In f64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr double kStrict = 1e-10;
constexpr double kLine = 64;  // bytes; what a replica's shard of a bucket is a multiple of

const std::vector<std::string> kOptimizers{
    "type = \"muon\"\nlearning_rate = 0.01\nweight_decay = 0.1\n",
    "type = \"muon\"\nlearning_rate = 0.01\nhead = true\nscale = \"rms\"\nnesterov = false\n",
    "type = \"adafactor\"\nlearning_rate = 0.02\nweight_decay = 0.1\n",
    "type = \"lamb\"\nlearning_rate = 0.01\nweight_decay = 0.1\n",
    "type = \"faulty\"\nlearning_rate = 0.005\n"};

// The model with another optimizer in place of its AdamW, and a schedule.
std::string with_optimizer(std::string toml, const std::string& keys) {
  const size_t at = toml.find("type = \"adamw\"\n"), rate = toml.find("learning_rate", at);
  const size_t end = toml.find('\n', rate) + 1;
  return toml.replace(at, end - at,
                      keys +
                          "schedule = { type = \"cosine\", total_steps = 20, "
                          "warmup_steps = 2 }\n");
}

JobSpec in_f64(const std::string& toml) {
  JobSpec job_spec{toml, {"precision.compute=f64", "batch.eval=8"}, {}, {}};
  job_spec.plugins = {FAULTY_OPTIMIZER, HEAVY_BALL};
  return job_spec;
}

const std::vector<Layout> kLayouts{{1, 2, 1, 0},
                                   {1, 2, 1, 1},
                                   {1, 4, 1, 2},
                                   {1, 3, 1, 3, "1f1b", 1, 2},
                                   {1, 1, 2},
                                   {1, 1, 4},
                                   {1, 2, 2, 1},
                                   {1, 2, 2, 2},
                                   {1, 2, 2, 3},
                                   {2, 2, 1, 1, "zero_bubble"},
                                   {2, 2, 2, 3, "1f1b", 1, 2},
                                   {4, 1, 1, 0, "gpipe"}};

nlohmann::json plan(const JobSpec& job_spec, uint32_t ranks) {
  return nlohmann::json::parse(plan_of(job_spec, ranks));
}

std::string refusal(const std::string& toml) {
  try {
    plan_of(in_f64(toml), 1);
  } catch (const plait::HostError& e) {
    return e.what();
  }
  return "";
}

TEST_SUITE("optimizers_1") {
  TEST_CASE("ties, norms and groups: each optimizer on each layout as on one rank") {
    const Folder folder;
    for (const std::string& keys : kOptimizers) {
      CAPTURE(keys);
      const JobSpec of_16 = in_f64(with_optimizer(deep_model(folder), keys));
      JobSpec of_12 = of_16;  // a batch that three replicas can divide
      of_12.overrides.emplace_back("batch.global=12");
      const Outcome expected_of_16 = alone(of_16, 10), expected_of_12 = alone(of_12, 10);
      for (const Layout& layout : kLayouts) {
        CAPTURE(layout.text());
        const bool by_three = layout.data == 3;
        JobSpec here = on(by_three ? of_12 : of_16, layout);
        if (by_three) here.overrides.emplace_back("batch.eval=12");
        check_same(run(here, layout.ranks(), train(10)), by_three ? expected_of_12 : expected_of_16,
                   kStrict);
      }
    }
  }
}

TEST_SUITE("optimizers_2") {
  TEST_CASE("experts: each has its own norms and products, wherever its matrix lies") {
    const Folder folder;
    const std::string of_all = "type = \"muon\"\nlearning_rate = 0.01\n";
    for (const std::string& keys : {of_all, kOptimizers[2], kOptimizers[3]}) {
      CAPTURE(keys);
      const JobSpec job_spec = in_f64(with_optimizer(experts_model(folder), keys));
      const Outcome expected = alone(job_spec, 4);
      for (const Layout& layout : {Layout{1, 1, 2}, Layout{1, 1, 4}, Layout{1, 2, 2, 1},
                                   Layout{1, 2, 1, 3}, Layout{2, 1, 2, 0, "1f1b", 1, 4}}) {
        CAPTURE(layout.text());
        check_same(run(on(job_spec, layout), layout.ranks(), train(4)), expected, kStrict);
      }
    }
  }

  TEST_CASE("a vocabulary that does not divide, tied to the head: tables and padding") {
    const Folder folder;
    for (const std::string& keys : kOptimizers) {
      CAPTURE(keys);
      const JobSpec job_spec = in_f64(with_optimizer(vocabulary_model(folder, 13), keys));
      const Outcome expected = alone(job_spec, 10);
      for (const Layout& layout : {Layout{1, 1, 2}, Layout{1, 1, 4}, Layout{1, 2, 2, 1},
                                   Layout{1, 2, 2, 3}, Layout{2, 2, 2, 2, "1f1b", 1, 4}}) {
        CAPTURE(layout.text());
        check_same(run(on(job_spec, layout), layout.ranks(), train(10)), expected, kStrict);
      }
    }
  }

  TEST_CASE("an optimizer of whole tensors never sees padding: it may make anything of zeros") {
    const Folder folder;
    const JobSpec job_spec = in_f64(
        with_optimizer(vocabulary_model(folder, 13), "type = \"faulty\"\nfault = \"fills\"\n"));
    const Outcome expected = alone(job_spec, 10);
    for (const Layout& layout : {Layout{1, 1, 2}, Layout{1, 1, 4}, Layout{1, 2, 2, 3}}) {
      CAPTURE(layout.text());
      check_same(run(on(job_spec, layout), layout.ranks(), train(10)), expected, kStrict);
    }
  }

  TEST_CASE(
      "one sharded parameter in a bucket of its own: replicas without it make the same calls") {
    const std::string data = "type = \"synthetic\"\nshape = [8]\nclasses = 4\n";
    const std::string model =
        "[run]\nthreads = 1\n[batch]\nglobal = 16\n[data.train]\n" + data + "[data.eval]\n" + data +
        "[[model.layers]]\ntype = \"linear\"\nout = 16\nbias = false\nparallel = "
        "\"column\"\n[[model.layers]]\ntype = \"linear\"\nout = 4\n[loss]\ntype = "
        "\"cross_entropy\"\n[[metrics]]\ntype = \"accuracy\"\n[optimizer]\nclip_grad_norm = 0.1\n";
    for (const std::string& keys : kOptimizers) {
      CAPTURE(keys);
      const JobSpec job_spec = in_f64(model + keys);
      const Outcome expected = alone(job_spec, 4);
      for (const Layout& layout : {Layout{1, 2, 2, 1}, Layout{1, 4, 2, 2}, Layout{1, 2, 2, 3}}) {
        CAPTURE(layout.text());
        check_same(run(on(job_spec, layout), layout.ranks(), train(4)), expected, kStrict);
      }
    }
  }

  TEST_CASE("a group with an optimizer of its own") {
    const Folder folder;
    // The model with one optimizer for weights and another one for biases: whichever is the
    // model's, and whichever that of a group.
    const auto with = [&](const std::string& of_all, const std::string& match,
                          const std::string& own) {
      const std::string toml = with_optimizer(model(folder), of_all);
      return in_f64(toml.substr(0, toml.find("[[optimizer.groups]]")) +
                    "[[optimizer.groups]]\nmatch = [\"" + match + "\"]\n" + own);
    };
    const std::string sgd = "type = \"sgd\"\nmomentum = 0.5\nlearning_rate = 0.01\n";
    for (const std::string& keys :
         {std::string("type = \"adamw\"\nlearning_rate = 0.003\nbeta2 = 0.9\n"), kOptimizers[0]}) {
      CAPTURE(keys);
      const JobSpec job_spec = with(keys, "*.bias", sgd);
      const Outcome expected = alone(job_spec, 10);
      check_same({alone(with(sgd, "*.weight\", \"*.gain", keys), 10)}, expected, kStrict);
      CHECK(alone(in_f64(with_optimizer(model(folder), keys)), 10).losses != expected.losses);
      for (const Layout& layout : kLayouts) {
        if (layout.data == 3 || layout.pipeline == 4) continue;
        CAPTURE(layout.text());
        check_same(run(on(job_spec, layout), layout.ranks(), train(10)), expected, kStrict);
      }
    }
  }

  TEST_CASE("a state may take the old value of the parameter or of another state") {
    const Folder folder;
    const auto with = [&](const std::string& keys) {
      JobSpec job_spec = in_f64(with_optimizer(deep_model(folder), keys));
      // Positions and velocities agree only while the rate stays.
      job_spec.overrides.emplace_back("optimizer.schedule={type=\"constant\"}");
      return job_spec;
    };
    const Outcome expected =
        alone(with("type = \"sgd\"\nmomentum = 0.5\nlearning_rate = 0.01\n"), 5);
    for (const char* tensor : {"false", "true"}) {
      CAPTURE(tensor);
      const std::string keys =
          std::string("type = \"heavy_ball\"\nlearning_rate = 0.01\ntensor = ") + tensor + "\n";
      for (const Layout& layout : {Layout{1, 1, 1}, Layout{1, 2, 2, 2}}) {
        CAPTURE(layout.text());
        check_same(run(on(with(keys), layout), layout.ranks(), train(5)), expected, 1e-6);
      }
    }
  }
}

TEST_SUITE("optimizers_3") {
  TEST_CASE("checkpoints hold global states: saved by one layout, continued by another") {
    const Folder folder;
    const std::vector<Layout> all{{1, 2, 2, 3}, {2, 1, 2}, {1, 1, 1}, {1, 4, 1, 1}, {1, 1, 4}};
    for (const char* model : {"deep", "vocabulary"})
      for (size_t k = 0; k < kOptimizers.size(); ++k) {
        const std::string toml =
            std::string(model) == "deep" ? deep_model(folder) : vocabulary_model(folder, 13);
        const JobSpec job_spec = in_f64(with_optimizer(toml, kOptimizers[k]));
        Outcome expected = alone(job_spec, 8);
        expected.losses.erase(expected.losses.begin(), expected.losses.begin() + 4);
        expected.norms.erase(expected.norms.begin(), expected.norms.begin() + 4);
        expected.initial.clear();
        for (size_t i = 0; i < all.size(); ++i) {
          const Layout &from = all[i], &to = all[(i + 1) % all.size()];
          CAPTURE(kOptimizers[k]);
          CAPTURE(from.text());
          CAPTURE(to.text());
          const std::string path = folder / (model + std::to_string(k) + "-" + std::to_string(i));
          const auto saved =
              run(on(job_spec, from), from.ranks(), [&](uint32_t, plait::Session& s, Outcome&) {
                for (int step = 0; step < 4; ++step) s.step();
                s.save(path);
              });
          for (const Outcome& o : saved) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
          const auto go_on = [&](uint32_t rank, plait::Session& s, Outcome& o) {
            s.load(path);
            train(4)(rank, s, o);
          };
          check_same(run(on(job_spec, to), to.ranks(), go_on), expected, kStrict);
        }
      }
  }

  TEST_CASE("a step that is not finite changes neither parameters nor states") {
    for (const std::string& keys : kOptimizers) {
      CAPTURE(keys);
      const std::string toml =
          "[run]\nthreads = 1\n[batch]\nglobal = 8\n[data.train]\ntype = \"synthetic\"\nshape = "
          "[6]\nclasses = 3\n[[model.layers]]\ntype = \"linear\"\nout = 4\nname = \"first\"\n"
          "[[model.layers]]\ntype = \"linear\"\nout = 3\n[loss]\ntype = \"cross_entropy\"\n"
          "[optimizer]\n" +
          keys;
      // The same steps, with one in between that is not finite.
      const auto steps = [](bool broken) {
        return [broken](uint32_t, plait::Session& s, Outcome& o) {
          std::vector<float> x(8 * 6, 0.5F);
          const std::vector<int32_t> y{0, 1, 2, 0, 1, 2, 0, 1};
          const auto step = [&] {
            const plait::Feed feeds[] = {plait::Feed("x", std::span<const float>(x), {8, 6}),
                                         plait::Feed("label", std::span<const int32_t>(y), {8})};
            return s.step(feeds);
          };
          for (int i = 0; i < 4; ++i) {
            for (size_t k = 0; k < x.size(); ++k) x[k] = std::sin(static_cast<float>(k) + i);
            if (broken && i == 2) {
              x[3] = std::numeric_limits<float>::infinity();
              step();
              x[3] = std::sin(3.0F + static_cast<float>(i));
            }
            o.losses.push_back(step().loss);
          }
          std::vector<double> w(4 * 6);
          s.read("model.first.weight", std::span<double>(w));
          o.weights["w"] = w;
        };
      };
      const auto plain = run(in_f64(toml), 1, steps(false)),
                 broken = run(in_f64(toml), 1, steps(true));
      REQUIRE_MESSAGE(plain[0].code == PLAIT_OK, plain[0].error);
      REQUIRE_MESSAGE(broken[0].code == PLAIT_OK, broken[0].error);
      CHECK(broken[0].losses == plain[0].losses);
      CHECK(broken[0].weights == plain[0].weights);
    }
  }

  TEST_CASE("ZeRO divides the states; tensor ranks divide those of what they share") {
    const Folder folder;
    for (const char* keys : {"type = \"lamb\"\n", "type = \"muon\"\nlearning_rate = 0.01\n"}) {
      CAPTURE(keys);
      const JobSpec job_spec = in_f64(with_optimizer(deep_model(folder), keys));
      const auto states = [&](const Layout& layout) {
        return plan(on(job_spec, layout), layout.ranks())["memory"]["optimizer"].get<double>();
      };
      const double whole = states({1, 1, 1});
      // The same states. A bucket for each parameter at most, and behind each bucket less than a
      // line of padding for each replica.
      const double padded = states({1, 2, 1, 0});
      CHECK(padded >= whole);
      CHECK(padded < whole + 2.0 * kDeepLayers * 2 * kLine);
      for (const int zero : {1, 2, 3}) CHECK(states({1, 4, 1, zero}) < 0.5 * whole);
      CHECK(states({1, 1, 4}) < 0.5 * whole);
    }
  }

  TEST_CASE("adafactor keeps rows and columns, not matrices") {
    const Folder folder;
    const auto memory = [&](const char* keys) {
      return plan(in_f64(with_optimizer(deep_model(folder), keys)), 1)["memory"];
    };
    const auto factored = memory("type = \"adafactor\"\nlearning_rate = 0.01\n");
    const auto adam = memory("type = \"adamw\"\nlearning_rate = 0.01\n");
    CHECK(factored["optimizer"].get<double>() < 0.25 * adam["optimizer"].get<double>());
  }

  TEST_CASE("a plugin that breaks the contract: the error names plugin, optimizer and parameter") {
    const Folder folder;
    struct Fault {
      const char *name, *text;
    };
    for (const Fault& f :
         {Fault{"extent",
                "asks for state 'rows' with an extent of 17 in dimension 0, expected 16 as "
                "in dimension 0"},
          {"dimension", "asks for state 'rows' whose dimension 0 runs along dimension 5"},
          {"below", "asks for state 'rows' whose dimension 0 runs along dimension -2"},
          {"twice", "asks for state 'rows' with two dimensions along dimension 0"},
          {"twice in the last", "asks for state 'rows' with two dimensions along dimension 1"},
          {"negative", "asks for state 'rows' with an extent of -1 in dimension 0"},
          {"other shape", "asks for state 'rows' as f64 (16) and as f64 (16, 16)"},
          {"set_state", "sets state 'rows' to f64 (), expected f64 (16)"},
          {"unknown state", "calls set_state('columns') before state() or tensor_state()"},
          {"result", "makes f64 ()"},
          {"no result", "leaves the new parameter unset"},
          {"no value", "sets the new parameter to 4000000, which is no value,"},
          {"scope",
           "gives 7 for parameter 'model.first.weight', expected PLAIT_SCOPE_ELEMENT (0)"}}) {
      const std::string keys =
          std::string("type = \"faulty\"\nfault = \"") + f.name + "\"\nlearning_rate = 0.1\n";
      const std::string text = refusal(with_optimizer(model(folder), keys));
      CAPTURE(text);
      CHECK(text.find(f.text) != std::string::npos);
      for (const char* part : {"[plugin optimizer-faulty]", "optimizer 'faulty'",
                               "parameter 'model.first.weight'", "tell its author"})
        CHECK(text.find(part) != std::string::npos);
    }
  }

  TEST_CASE("muon: AdamW for vectors, tables that ids look up, and the last layer's matrix") {
    const Folder folder;
    const std::string muon = "type = \"muon\"\nlearning_rate = 0.01\n";
    const auto rules = [&](const std::string& toml, const Layout& layout) {
      std::map<std::string, std::string> all;
      const JobSpec job_spec = on(in_f64(toml), layout);
      const auto described = plan(job_spec, layout.ranks());
      for (const auto& p : described["parameters"])
        if (p.contains("update")) all[p["name"]] = p["update"];
      return all;
    };
    for (const Layout& layout : {Layout{1, 1, 1}, Layout{2, 1, 2}}) {
      auto found = rules(with_optimizer(deep_model(folder), muon), layout);
      CHECK(found["model.first.weight"] == "tensor");
      CHECK(found["model.wide.weight"] == "tensor");
      CHECK(found["model.wide.bias"] == "element");
      CHECK(found["model.head.weight"] == "element");
      CHECK(found.count("model.kept.weight") == 0);  // frozen
      found = rules(with_optimizer(deep_model(folder), muon + "head = true\n"), layout);
      CHECK(found["model.head.weight"] == "tensor");
      found = rules(with_optimizer(vocabulary_model(folder, 13), muon + "head = true\n"), layout);
      CHECK(found["model.ids.weight"] == "element");
      CHECK(found["model.linear1.weight"] == "tensor");
    }
  }

  TEST_CASE("a group may ask for the element-wise rule, which adafactor has not") {
    const Folder folder;
    const std::string group =
        "[[optimizer.groups]]\nmatch = [\"model.head.weight\"]\nelementwise = true\n";
    const std::string muon = "type = \"muon\"\nhead = true\nlearning_rate = 0.01\n";
    const auto momentum = [&](const std::string& toml) {
      return plan(in_f64(toml), 1)["memory"]["optimizer"].get<double>();
    };
    const std::string toml = with_optimizer(model(folder), muon);
    CHECK(momentum(toml + group) > momentum(toml));  // two states in place of one
    const std::string text = refusal(
        with_optimizer(model(folder), "type = \"adafactor\"\nlearning_rate = 0.01\n") + group);
    CAPTURE(text);
    CHECK(text.find("the rule of parameter 'model.head.weight'") != std::string::npos);
    CHECK(text.find("scope() of optimizer 'adafactor'") != std::string::npos);
    CHECK(text.find("remove elementwise = true from the group") != std::string::npos);
  }
}

}  // namespace

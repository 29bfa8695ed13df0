// Adapters, and models that they are merged into, compared with the peft library and PyTorch in
// float64 (tests/golden/golden_peft.py).
#include <tuple>

#include "tests/support/folder.hpp"
#include "tests/unit/host/peft_runs.hpp"

using host::Run;
using nlohmann::json;
using plait::test::GoldenFile;
using namespace host::peft;

namespace {

// Attributes of a case beside its adapters: parameters of the model that learn too, and groups of
// the optimizer.
std::string train_of(const json& attributes) {
  return attributes.contains("train") ? "[model]\ntrain = " + attributes["train"].dump() + "\n"
                                      : "";
}
std::string groups_of(const json& attributes) {
  std::string text;
  if (attributes.contains("groups"))
    for (const json& group : attributes["groups"]) {
      text += "[[optimizer.groups]]\n";
      for (const auto& [key, value] : group.items()) text += key + " = " + value.dump() + "\n";
    }
  return text;
}

// A table whose rows are looked up by the labels, and a head, which may be the same.
std::string labels_experiment(bool tied) {
  return std::string(
             "[precision]\ncompute = \"f64\"\n[batch]\nglobal = 6\n[data.train]\n"
             "type = \"synthetic\"\nshape = [13]\nclasses = 5\n"
             "[[model.layers]]\ntype = \"embedding\"\nname = \"table\"\nfrom = \"label\"\n"
             "vocabulary = 5\nwidth = 6\n[[model.layers]]\ntype = \"linear\"\n"
             "name = \"middle\"\nout = 6\n[[model.layers]]\ntype = \"relu\"\n"
             "[[model.layers]]\ntype = \"linear\"\nname = \"head\"\nout = 5\nbias = false\n") +
         (tied ? "tie = {weight = \"model.table.weight\"}\n" : "");
}

// The parameters of the model and its adapters, in this order.
std::vector<std::vector<double>> read_all(const Run& run, const GoldenFile& golden,
                                          const std::string& name,
                                          const std::vector<std::string>& adapters) {
  std::vector<std::vector<double>> all;
  for (const auto& [own, stored] : base())
    all.push_back(read(run, own, golden.values(stored).size()));
  for (const std::string& p : adapters)
    all.push_back(read(run, p, golden.values(name + "/final." + p).size()));
  return all;
}

// Merged, the model alone gives the same outputs, with the weights that the library makes; taken
// back, all bits are as before.
void check_merge(const Run& run, const GoldenFile& golden, const std::string& name,
                 const json& attributes, const std::vector<std::string>& adapters) {
  const auto x = golden.values("peft/x"), output = golden.values(name + "/output");
  check_close(predict(run, x), output, 1e-11);
  std::vector<std::string> merged;
  for (const std::string tensor : attributes["tensors"])
    if (tensor.starts_with("merged.")) merged.push_back(tensor.substr(7));
  if (merged.empty()) {
    const auto failure =
        host::failure_of([&] { host::check(plait_session_merge(run.session(), 0)); });
    CHECK(failure.code == PLAIT_ERR_CONFIG);
    CHECK(failure.text.find("cannot be merged") != std::string::npos);
    return;
  }
  const auto before = read_all(run, golden, name, adapters);
  host::check(plait_session_merge(run.session(), 0));
  CHECK(read_all(run, golden, name, adapters) != before);
  for (const std::string& p : merged) {
    CAPTURE(p);
    const auto expected = golden.values(name + "/merged." + p);
    check_close(read(run, p, expected.size()), expected, 1e-11);
  }
  check_close(predict(run, x), output, 1e-11);
  for (const auto call :
       {+[](plait_session* s) { return plait_session_merge(s, 0); },
        +[](plait_session* s) { return plait_session_step(s, nullptr, 0, nullptr); }})
    CHECK(host::failure_of([&] { host::check(call(run.session())); }).code == PLAIT_ERR_STATE);
  host::check(plait_session_unmerge(run.session()));
  CHECK(read_all(run, golden, name, adapters) == before);
  CHECK(host::failure_of([&] { host::check(plait_session_unmerge(run.session())); }).code ==
        PLAIT_ERR_STATE);
  // For good: nothing to take back, and the adapters can be merged again, which changes little.
  host::check(plait_session_merge(run.session(), PLAIT_MERGE_FINAL));
  CHECK(host::failure_of([&] { host::check(plait_session_unmerge(run.session())); }).code ==
        PLAIT_ERR_STATE);
  host::check(plait_session_merge(run.session(), PLAIT_MERGE_FINAL));
  check_close(predict(run, x), output, 1e-11);
}

template <class F>
void for_each_case(const GoldenFile& golden, F&& f) {
  for (const auto& [name, text] : golden.header().metadata)
    if (name.starts_with("peft.")) {
      CAPTURE(name);
      f(name, json::parse(text));
    }
}

}  // namespace

TEST_CASE("20 steps with every PEFT method follow the peft library in float64") {
  const GoldenFile golden("peft.safetensors");
  json adamw;
  for (const auto& [name, text] : golden.header().metadata)
    if (name == "peft") adamw = json::parse(text)["adamw"];
  const auto all_x = golden.values("peft/x"), all_targets = golden.values("peft/target");
  for (const std::string device : {"reference", "cpu"})
    for_each_case(golden, [&](const std::string& name, const json& attributes) {
      CAPTURE(device);
      const Run run(
          experiment(attributes["adapters"], adamw,
                     "[run]\nsteps = 20\ndevice = \"" + device + "\"\n" + train_of(attributes)) +
          groups_of(attributes));
      for (const auto& [own, stored] : base()) write(run, own, golden.values(stored));
      std::vector<std::string> adapters;
      for (const std::string tensor : attributes["tensors"])
        if (tensor.starts_with("init.")) adapters.push_back(tensor.substr(5));
      REQUIRE(!adapters.empty());
      for (const std::string& p : adapters) write(run, p, golden.values(name + "/init." + p));
      const auto losses = golden.values(name + "/losses"),
                 norms = golden.values(name + "/grad_norms");
      for (size_t i = 0; i < losses.size(); ++i) {
        const auto at = static_cast<std::ptrdiff_t>(i);
        std::vector<float> x(all_x.begin() + at * 78, all_x.begin() + (at + 1) * 78);
        std::vector<int32_t> target(all_targets.begin() + at * 6,
                                    all_targets.begin() + (at + 1) * 6);
        const auto r = step(run, x, target);
        CAPTURE(i);
        CHECK(r.loss == doctest::Approx(losses[i]).epsilon(1e-12));
        CHECK(r.grad_norm == doctest::Approx(norms[i]).epsilon(1e-12));
      }
      for (const std::string& p : adapters) {
        const auto expected = golden.values(name + "/final." + p);
        const auto found = read(run, p, expected.size());
        CAPTURE(p);
        for (size_t k = 0; k < expected.size(); ++k)
          CHECK(found[k] == doctest::Approx(expected[k]).epsilon(1e-11));
      }
      // What is frozen stays to the last bit.
      for (const auto& [own, stored] : base()) {
        if (std::find(adapters.begin(), adapters.end(), own) != adapters.end()) continue;
        const auto expected = golden.values(stored);
        CHECK(read(run, own, expected.size()) == expected);
      }
      check_merge(run, golden, name, attributes, adapters);
    });
}

TEST_CASE("several adapters of one weight, in any order, merge into the same function") {
  const json adamw = {{"lr", 0.02}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  const json match = {"model.linear2.weight"};
  const json lora = {{"type", "lora"}, {"match", match}, {"rank", 2}},
             dora = {{"type", "dora"}, {"match", match}, {"rank", 2}},
             output = {{"type", "ia3"}, {"name", "out"}, {"match", match}},
             input = {{"type", "ia3"}, {"name", "in"}, {"match", match}, {"on", "input"}},
             bias = {{"type", "bitfit"}, {"match", match}};
  std::vector<double> x(78);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  std::vector<float> fed(x.begin(), x.end());
  std::vector<int32_t> target{0, 1, 2, 3, 4, 0};
  const std::vector<std::vector<json>> orders{{lora, output, bias}, {bias, output, lora},
                                              {bias, dora},         {lora, dora, input},
                                              {dora, lora, output}, {output, input, dora, bias}};
  for (const auto& adapters : orders) {
    CAPTURE(json(adapters).dump());
    const Run run(experiment(json(adapters), adamw, ""));
    for (int i = 0; i < 4; ++i) step(run, fed, target);
    const auto before = predict(run, x);
    const auto weight = read(run, "model.linear2.weight", 77);
    host::check(plait_session_merge(run.session(), 0));
    check_close(predict(run, x), before, 1e-12);
    CHECK(read(run, "model.linear2.weight", 77) != weight);
    host::check(plait_session_unmerge(run.session()));
    CHECK(predict(run, x) == before);
  }
}

TEST_CASE("ranks and alpha by pattern") {
  const json adamw = {{"lr", 0.02}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  const auto with = [](const json& ranks, const json& alphas) {
    return json{{"type", "lora"},
                {"match", {"model.linear*.weight"}},
                {"rank", 2},
                {"alpha", 4.0},
                {"rank_pattern", ranks},
                {"alpha_pattern", alphas}};
  };
  // The first pattern that matches counts.
  const json one = with({"model.linear2.weight=4", "*2.weight=1", "*1*=3"}, {"*3.weight=8.5"});
  const Run run(experiment(json::array({one}), adamw, ""));
  const std::vector<std::tuple<std::string, size_t, double>> targets{
      {"model.linear1.weight", 3, 4.0 / 3},
      {"model.linear2.weight", 4, 1},
      {"model.linear3.weight", 2, 4.25}};
  const std::vector<size_t> widths{13, 11, 7, 5};
  for (size_t i = 0; i < 3; ++i) {
    const auto& [name, rank, scale] = targets[i];
    CAPTURE(name);
    // The whole change is scale · b·a; it is what a merge adds.
    write(run, name + ".lora.a", std::vector<double>(rank * widths[i], 0.5));
    write(run, name + ".lora.b", std::vector<double>(widths[i + 1] * rank, 0.25));
    const size_t n = widths[i] * widths[i + 1];
    const auto before = read(run, name, n);
    host::check(plait_session_merge(run.session(), 0));
    const auto after = read(run, name, n);
    host::check(plait_session_unmerge(run.session()));
    for (size_t k = 0; k < n; ++k)
      CHECK(after[k] - before[k] ==
            doctest::Approx(scale * 0.125 * static_cast<double>(rank)).epsilon(1e-12));
  }
  const auto problem = [&](const json& ranks, const json& alphas, const std::string& part) {
    const auto failure = host::failure_of(
        [&] { const Run bad(experiment(json::array({with(ranks, alphas)}), adamw, "")); });
    CHECK(failure.code == PLAIT_ERR_CONFIG);
    CAPTURE(failure.text);
    CHECK(failure.text.find(part) != std::string::npos);
  };
  const json none = json::array();
  problem({"*.linear4.*=3"}, none,
          "pattern '*.linear4.*' matches nothing that this adapter changes");
  problem({"*.linear4.*=3"}, none, "model.adapters[0].rank_pattern");
  problem(none, {"*.bias=3"}, "model.adapters[0].alpha_pattern");
  for (const char* text : {"*=0", "*=2.5", "*=many", "*", "=3", "*="})
    problem({text}, none, "rank_pattern has '" + std::string(text) + "', expected PATTERN=NUMBER");
  problem(none, {"*=inf"}, "alpha_pattern has '*=inf', expected PATTERN=NUMBER with a number");
}

TEST_CASE(
    "rows of token ids and LoRA of a table follow the peft library, and rows of a tied head") {
  const GoldenFile golden("peft.safetensors");
  json adamw, attributes;
  const auto all_targets = golden.values("peft/target");
  for (const std::string device : {"reference", "cpu"})
    for (const std::string name : {"rows.table", "rows.tied", "rows.lora"}) {
      CAPTURE(device);
      CAPTURE(name);
      for (const auto& [key, text] : golden.header().metadata) {
        if (key == "peft") adamw = json::parse(text)["adamw"];
        if (key == name) attributes = json::parse(text);
      }
      adamw["weight_decay"] = 0.0;
      const Run run("[run]\ndevice = \"" + device + "\"\n" +
                    labels_experiment(name == "rows.tied") + toml_of(attributes["adapters"][0]) +
                    recipe(adamw));
      std::vector<std::pair<std::string, std::string>> base;
      for (const std::string tensor : attributes["tensors"])
        if (tensor.starts_with("base."))
          base.emplace_back("model." + tensor.substr(5), name + "/" + tensor);
      CHECK(base.size() == (name == "rows.tied" ? 3 : 4));
      for (const auto& [own, stored] : base) write(run, own, golden.values(stored));
      size_t n_parameters = 0;
      for (const std::string tensor : attributes["tensors"])
        if (tensor.starts_with("init.")) {
          write(run, tensor.substr(5), golden.values(name + "/" + tensor));
          ++n_parameters;
        }
      CHECK(n_parameters == (name == "rows.lora" ? 2 : 1));
      const auto losses = golden.values(name + "/losses"),
                 norms = golden.values(name + "/grad_norms");
      for (size_t i = 0; i < losses.size(); ++i) {
        const auto at = static_cast<std::ptrdiff_t>(i) * 6;
        std::vector<float> none;
        std::vector<int32_t> target(all_targets.begin() + at, all_targets.begin() + at + 6);
        const auto r = step(run, none, target);
        CAPTURE(i);
        CHECK(r.loss == doctest::Approx(losses[i]).epsilon(1e-12));
        CHECK(r.grad_norm == doctest::Approx(norms[i]).epsilon(1e-12));
      }
      for (const std::string tensor : attributes["tensors"]) {
        if (!tensor.starts_with("final.")) continue;
        CAPTURE(tensor);
        const auto expected = golden.values(name + "/" + tensor);
        check_close(read(run, tensor.substr(6), expected.size()), expected, 1e-11);
      }
      for (const auto& [own, stored] : base) {
        const auto before = golden.values(stored);
        CHECK(read(run, own, before.size()) == before);
      }
    }
}

TEST_CASE("ids of token rows that a table does not have") {
  const json adamw = {{"lr", 0.01}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  for (const auto& [ids, part] :
       std::vector<std::pair<json, std::string>>{{{1, 5},
                                                  "contain 5, and 'model.table.weight' has "
                                                  "the rows 0 to 4"},
                                                 {{2, 1, 2}, "contain 2 twice"},
                                                 {json::array(), "are none"},
                                                 {{-1}, "ids"}}) {
    const json entry = {{"type", "token_rows"}, {"match", {"model.table.weight"}}, {"ids", ids}};
    const auto failure = host::failure_of(
        [&] { const Run run(labels_experiment(false) + toml_of(entry) + recipe(adamw)); });
    CHECK(failure.code == PLAIT_ERR_CONFIG);
    CAPTURE(failure.text);
    CHECK(failure.text.find(part) != std::string::npos);
  }
}

// LoRA+ (Hayou et al. 2024): b learns 16 times as fast as a.
TEST_CASE("groups of the optimizer give factors of an adapter rates of their own") {
  const json adamw = {
      {"lr", 0.001}, {"betas", {0.9, 0.999}}, {"eps", 1e-12}, {"weight_decay", 0.5}};
  const json adapter = {{"type", "lora"}, {"match", {"model.linear2.weight"}}, {"rank", 2}};
  const Run run(experiment(json::array({adapter}), adamw, "") +
                "[[optimizer.groups]]\nmatch = [\"*.lora.b\"]\nlearning_rate = 0.016\n"
                "weight_decay = 0\n");
  const std::string a = "model.linear2.weight.lora.a", b = "model.linear2.weight.lora.b";
  std::vector<double> a_before(22), b_before(14);
  for (size_t i = 0; i < a_before.size(); ++i) a_before[i] = 0.1 * static_cast<double>(i % 5) + 0.1;
  for (size_t i = 0; i < b_before.size(); ++i) b_before[i] = 0.2 - 0.1 * static_cast<double>(i % 3);
  write(run, a, a_before);
  write(run, b, b_before);
  std::vector<float> x(78);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 2.5F;
  std::vector<int32_t> target{0, 1, 2, 3, 4, 0};
  step(run, x, target);
  const auto a_after = read(run, a, 22), b_after = read(run, b, 14);
  // AdamW's first step moves what has a gradient by the rate, and decays by rate * 0.5 * w.
  size_t moved = 0;
  for (size_t i = 0; i < a_after.size(); ++i) {
    const double change = a_after[i] - a_before[i] * (1 - 0.001 * 0.5);
    CHECK((change == doctest::Approx(0) || std::abs(change) == doctest::Approx(0.001)));
    moved += std::abs(change) > 0.0005;
  }
  CHECK(moved > 0);
  moved = 0;
  for (size_t i = 0; i < b_after.size(); ++i) {
    const double change = b_after[i] - b_before[i];
    CHECK((change == doctest::Approx(0) || std::abs(change) == doctest::Approx(0.016)));
    moved += std::abs(change) > 0.008;
  }
  CHECK(moved > 0);
}

TEST_CASE("patterns that match nothing are problems of their keys") {
  const json adamw = {{"lr", 0.01}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  const auto problem = [&](const json& adapter, const std::string& more = "") {
    const auto failure =
        host::failure_of([&] { const Run run(experiment(json::array({adapter}), adamw, more)); });
    CHECK(failure.code == PLAIT_ERR_CONFIG);
    return failure.text;
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  std::string text = problem({{"type", "lora"}, {"match", {"model.linear4.weight"}}});
  CAPTURE(text);
  CHECK(contains(text, "model.adapters[0].match"));
  CHECK(contains(text, "pattern 'model.linear4.weight' matches nothing that lora can change"));
  CHECK(contains(text, "model.linear1.weight, model.linear2.weight, model.linear3.weight"));
  text = problem({{"type", "lora"}, {"match", {"*"}}, {"exclude", {"*.wieght"}}});
  CHECK(contains(text, "model.adapters[0].exclude"));
  // Layers are for other methods.
  text = problem({{"type", "lora"}, {"match", {"model.relu1"}}});
  CHECK(contains(text, "'model.relu1' matches nothing that lora can change"));
  text = problem({{"type", "lora"}, {"match", {"*"}}}, "[model]\ntrain = [\"*.gain\"]\n");
  CHECK(contains(text, "model.train"));
  CHECK(contains(text, "pattern '*.gain' matches no parameter"));
  text = problem({{"type", "lorra"}, {"match", {"*"}}});
  CHECK(contains(text, "unknown method 'lorra' (did you mean 'lora'?)"));
  text = problem({{"type", "lora"}, {"match", {"*"}}, {"exclude", {"model.*"}}});
  CHECK(contains(text, "adapter 'lora' changes nothing"));
  text = problem({{"type", "lora"}, {"match", {"*"}}}, "[model]\ntrain = [\"*.lora.a\"]\n");
  CHECK(contains(text, "those of adapters are always trained"));
  text = problem({{"type", "lora"}});
  CHECK(contains(text, "match"));
}

TEST_CASE("parameters that `train` names learn beside an adapter; all others stay") {
  const json adamw = {{"lr", 0.01}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  const json adapter = {{"type", "lora"}, {"match", {"model.linear2.weight"}}};
  const Run run(
      experiment(json::array({adapter}), adamw, "[model]\ntrain = [\"model.linear3.bias\"]\n"));
  std::vector<std::pair<std::string, size_t>> all{{"model.linear1.weight", 143},
                                                  {"model.linear2.weight", 77},
                                                  {"model.linear3.weight", 35},
                                                  {"model.linear3.bias", 5},
                                                  {"model.linear2.weight.lora.b", 56}};
  std::vector<std::vector<double>> before;
  for (const auto& [name, n] : all) before.push_back(read(run, name, n));
  std::vector<float> x(78);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  std::vector<int32_t> target{0, 1, 2, 3, 4, 0};
  for (int i = 0; i < 3; ++i) step(run, x, target);
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].first);
    CHECK((read(run, all[i].first, all[i].second) == before[i]) == (i < 3));
  }
}

// Adapters, and models that they are merged into, compared with the peft library and PyTorch in
// float64 (tests/golden/golden_peft.py).
#include <plait/adapters.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <tuple>

#include "tests/support/folder.hpp"
#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

using host::Run;
using nlohmann::json;
using plait::test::GoldenFile;

namespace {

std::string toml_of(const json& entry) {
  std::string text = "[[model.adapters]]\n";
  for (const auto& [key, value] : entry.items()) text += key + " = " + value.dump() + "\n";
  return text;
}

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

std::string recipe(const json& adamw) {
  return std::string("[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = \"adamw\"\n") +
         "learning_rate = " + adamw["lr"].dump() + "\nbeta1 = " + adamw["betas"][0].dump() +
         "\nbeta2 = " + adamw["betas"][1].dump() + "\neps = " + adamw["eps"].dump() +
         "\nweight_decay = " + adamw["weight_decay"].dump() + "\n";
}

std::string experiment(const json& adapters, const json& adamw, const std::string& more) {
  std::string layers;
  for (int out : {11, 7, 5}) {
    if (out != 11) layers += "[[model.layers]]\ntype = \"relu\"\n";
    layers += "[[model.layers]]\ntype = \"linear\"\nout = " + std::to_string(out) + "\n";
  }
  for (const json& entry : adapters) layers += toml_of(entry);
  return more +
         "[precision]\ncompute = \"f64\"\n[batch]\nglobal = 6\n[data.train]\ntype = \"synthetic\"\n"
         "shape = [13]\nclasses = 5\n" +
         layers + recipe(adamw);
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

void write(const Run& run, const std::string& name, const std::vector<double>& v) {
  host::check(
      plait_session_write(run.session(), name.c_str(), v.data(), v.size() * sizeof(double)));
}
std::vector<double> read(const Run& run, const std::string& name, size_t n) {
  std::vector<double> v(n);
  host::check(plait_session_read(run.session(), name.c_str(), v.data(), n * sizeof(double)));
  return v;
}

// {Plait's name, the name in the file} of the model's own parameters.
std::vector<std::pair<std::string, std::string>> base() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const char* layer : {"1", "2", "3"})
    for (const char* part : {".weight", ".bias"})
      names.emplace_back(std::string("model.linear") + layer + part,
                         std::string("peft/base.layer") + layer + part);
  return names;
}

// x: empty where the program does not read it.
plait_step_result step(const Run& run, std::vector<float>& x, std::vector<int32_t>& target) {
  int64_t x_shape[2] = {6, 13}, row_shape[1] = {6};
  plait_dl_tensor dx{x.data(), {1, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0};
  plait_dl_tensor dy{target.data(), {1, 0}, 1, {0, 32, 1}, row_shape, nullptr, 0};
  const plait_feed feeds[] = {{sizeof(plait_feed), "label", &dy}, {sizeof(plait_feed), "x", &dx}};
  plait_step_result r{};
  r.struct_size = sizeof r;
  host::check(plait_session_step(run.session(), feeds, x.empty() ? 1 : 2, &r));
  return r;
}

// What the model makes of the first batch.
std::vector<double> predict(const Run& run, const std::vector<double>& all_x) {
  std::vector<float> x(all_x.begin(), all_x.begin() + 78);
  int64_t x_shape[2] = {6, 13};
  plait_dl_tensor dx{x.data(), {1, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0};
  const plait_feed feed{sizeof(plait_feed), "x", &dx};
  std::vector<double> out(30);
  host::check(plait_session_predict(run.session(), &feed, 1, "output", out.data(),
                                    out.size() * sizeof(double)));
  return out;
}

void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                 double epsilon) {
  REQUIRE(found.size() == expected.size());
  for (size_t k = 0; k < expected.size(); ++k)
    CHECK(found[k] == doctest::Approx(expected[k]).epsilon(epsilon));
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

TEST_CASE("DoRA starts with the norms of the rows, and changes nothing") {
  const json adamw = {{"lr", 0.02}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  const json dora = {{"type", "dora"}, {"match", {"model.linear*.weight"}}};
  const Run plain(experiment(json::array(), adamw, "")),
      run(experiment(json::array({dora}), adamw, ""));
  const auto weight = read(run, "model.linear2.weight", 77);
  const auto magnitude = read(run, "model.linear2.weight.dora.magnitude", 7);
  for (size_t row = 0; row < 7; ++row) {
    double sum = 0;
    for (size_t k = 0; k < 11; ++k) sum += weight[row * 11 + k] * weight[row * 11 + k];
    CHECK(magnitude[row] == doctest::Approx(std::sqrt(sum)).epsilon(1e-14));
  }
  std::vector<double> x(78, 0.25);
  check_close(predict(run, x), predict(plain, x), 1e-13);
}

TEST_CASE("PiSSA starts as the principal part of each weight, and changes nothing") {
  const GoldenFile golden("peft.safetensors");
  const json adamw = {{"lr", 0.02}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  constexpr size_t kRank = 3;
  const json pissa = {{"type", "pissa"},
                      {"match", {"model.linear*.weight"}},
                      {"rank", kRank},
                      {"alpha", 6.0},
                      {"iterations", 60}};
  for (const std::string device : {"cpu", "reference"}) {
    CAPTURE(device);
    constexpr double kEpsilon = 1e-6;
    const std::string on = "[run]\ndevice = \"" + device + "\"\n";
    const Run plain(experiment(json::array(), adamw, on)),
        run(experiment(json::array({pissa}), adamw, on));
    for (const auto& [own, stored] : base())
      for (const Run* each : {&plain, &run}) write(*each, own, golden.values(stored));
    // A merge at the initial values changes no weight, and lets the adapter start anew.
    host::check(plait_session_merge(run.session(), PLAIT_MERGE_FINAL));
    std::vector<size_t> widths{13, 11, 7, 5};
    for (size_t layer = 1; layer <= 3; ++layer) {
      CAPTURE(layer);
      const size_t in = widths[layer - 1], out = widths[layer];
      const std::string weight = "model.linear" + std::to_string(layer) + ".weight";
      const auto a = read(run, weight + ".pissa.a", kRank * in),
                 b = read(run, weight + ".pissa.b", out * kRank);
      CHECK(read(run, weight + ".pissa.initial_a", kRank * in) == a);
      std::vector<double> minus_b = b;
      for (double& v : minus_b) v = -v;
      CHECK(read(run, weight + ".pissa.minus_initial_b", out * kRank) == minus_b);
      CHECK(read(run, weight, out * in) ==
            golden.values("peft/base.layer" + std::to_string(layer) + ".weight"));
      std::vector<double> product(out * in, 0);
      for (size_t i = 0; i < out; ++i)
        for (size_t k = 0; k < in; ++k)
          for (size_t r = 0; r < kRank; ++r)
            product[i * in + k] += 2 * b[i * kRank + r] * a[r * in + k];
      const auto expected = golden.values("peft.pissa/start." + weight);
      for (size_t i = 0; i < expected.size(); ++i)
        CHECK(std::abs(product[i] - expected[i]) < kEpsilon);
      // Each factor has the square root of a singular value, and the directions are orthogonal.
      for (size_t r = 0; r < kRank; ++r)
        for (size_t q = 0; q <= r; ++q) {
          double of_a = 0, of_b = 0;
          for (size_t k = 0; k < in; ++k) of_a += a[r * in + k] * a[q * in + k];
          for (size_t i = 0; i < out; ++i) of_b += b[i * kRank + r] * b[i * kRank + q];
          if (q == r)
            CHECK(of_a == doctest::Approx(of_b).epsilon(kEpsilon));
          else
            CHECK(std::abs(of_a) + std::abs(of_b) < kEpsilon);
        }
    }
    std::vector<double> x(78, 0.25);
    CHECK(predict(run, x) == predict(plain, x));
  }
}

namespace {

// Singular values of a matrix of n columns, the greatest first: one-sided Jacobi rotations of its
// rows.
std::vector<double> singular_values(std::vector<double> w, size_t n) {
  const size_t m = w.size() / n;
  for (int sweep = 0; sweep < 20; ++sweep)
    for (size_t i = 0; i < m; ++i)
      for (size_t j = i + 1; j < m; ++j) {
        double *a = &w[i * n], *b = &w[j * n], aa = 0, bb = 0, ab = 0;
        for (size_t k = 0; k < n; ++k) aa += a[k] * a[k], bb += b[k] * b[k], ab += a[k] * b[k];
        const double angle = 0.5 * std::atan2(2 * ab, aa - bb);
        const double c = std::cos(angle), s = std::sin(angle);
        for (size_t k = 0; k < n; ++k) {
          const double x = a[k], y = b[k];
          a[k] = c * x + s * y;
          b[k] = c * y - s * x;
        }
      }
  std::vector<double> values;
  for (size_t i = 0; i < m; ++i) {
    double sum = 0;
    for (size_t k = 0; k < n; ++k) sum += w[i * n + k] * w[i * n + k];
    values.push_back(std::sqrt(sum));
  }
  std::sort(values.rbegin(), values.rend());
  return values;
}

}  // namespace

// A weight as it is drawn, whose singular values lie close together: the hardest case.
TEST_CASE("by its default of iterations PiSSA leaves next to the least that a rank can leave") {
  constexpr size_t kIn = 96, kOut = 64, kRank = 8;
  const std::string toml =
      "[precision]\ncompute = \"f64\"\n[batch]\nglobal = 6\n[data.train]\ntype = \"synthetic\"\n"
      "shape = [" +
      std::to_string(kIn) + "]\nclasses = " + std::to_string(kOut) +
      "\n[model]\nlayers = [{type = \"linear\", out = " + std::to_string(kOut) +
      "}]\n[[model.adapters]]\ntype = \"pissa\"\nmatch = [\"*.weight\"]\nrank = " +
      std::to_string(kRank) + "\nalpha = " + std::to_string(kRank) +
      ".0\n[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = \"sgd\"\n";
  const Run run(toml);
  const std::string name = "model.linear1.weight";
  const auto w = read(run, name, kIn * kOut), a = read(run, name + ".pissa.a", kRank * kIn),
             b = read(run, name + ".pissa.b", kOut * kRank);
  const auto exact = singular_values(w, kIn);
  double least = 0, left = 0, all = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    all += exact[i] * exact[i];
    if (i >= kRank) least += exact[i] * exact[i];
  }
  for (size_t i = 0; i < kOut; ++i)
    for (size_t k = 0; k < kIn; ++k) {
      double v = w[i * kIn + k];
      for (size_t r = 0; r < kRank; ++r) v -= b[i * kRank + r] * a[r * kIn + k];
      left += v * v;
    }
  CAPTURE(least / all);
  CAPTURE(left / least - 1);
  CHECK(left >= least * (1 - 1e-12));
  CHECK(left <= least * (1 + 1e-3));
  // The singular values that it found: |a|·|b| of each.
  for (size_t r = 0; r < kRank; ++r) {
    double of_a = 0, of_b = 0;
    for (size_t k = 0; k < kIn; ++k) of_a += a[r * kIn + k] * a[r * kIn + k];
    for (size_t i = 0; i < kOut; ++i) of_b += b[i * kRank + r] * b[i * kRank + r];
    CHECK(std::sqrt(of_a * of_b) == doctest::Approx(exact[r]).epsilon(1e-2));
  }
}

TEST_CASE("PiSSA of one row or column, of zeros, and of equal rows") {
  const std::string toml =
      "[precision]\ncompute = \"f64\"\n[batch]\nglobal = 6\n[data.train]\ntype = \"synthetic\"\n"
      "shape = [13]\nclasses = 5\n[model]\nlayers = [{type = \"linear\", out = 1}, "
      "{type = \"linear\", out = 7}, {type = \"linear\", out = 5}]\n[[model.adapters]]\n"
      "type = \"pissa\"\nmatch = [\"*.weight\"]\nrank = 1\nalpha = 1.0\n"
      "[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = \"sgd\"\n";
  const Run run(toml);
  // Each weight has one singular value.
  const std::vector<std::vector<double>> weights{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13},
                                                 {1, -2, 3, -4, 5, -6, 7},
                                                 std::vector<double>(35, 2)};
  const std::vector<size_t> widths{13, 1, 7, 5};
  const auto check_all = [&](bool zeros) {
    for (size_t i = 0; i < 3; ++i) {
      const std::string name = "model.linear" + std::to_string(i + 1) + ".weight";
      write(run, name, zeros ? std::vector<double>(weights[i].size(), 0) : weights[i]);
    }
    host::check(plait_session_merge(run.session(), PLAIT_MERGE_FINAL));
    for (size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      const std::string name = "model.linear" + std::to_string(i + 1) + ".weight.pissa.";
      const auto a = read(run, name + "a", widths[i]), b = read(run, name + "b", widths[i + 1]);
      for (size_t o = 0; o < b.size(); ++o)
        for (size_t k = 0; k < a.size(); ++k) {
          const double expected = zeros ? 0 : weights[i][o * a.size() + k];
          CHECK(std::abs(a[k] * b[o] - expected) < 1e-12);
        }
    }
  };
  for (const bool zeros : {false, true, false}) check_all(zeros);
}

TEST_CASE("a rank that a weight does not have") {
  const json adamw = {{"lr", 0.02}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  const json pissa = {{"type", "pissa"}, {"match", {"model.linear*.weight"}}, {"rank", 6}};
  const auto failure =
      host::failure_of([&] { const Run run(experiment(json::array({pissa}), adamw, "")); });
  CHECK(failure.code == PLAIT_ERR_CONFIG);
  CAPTURE(failure.text);
  CHECK(failure.text.find("the rank of 'model.linear3.weight' is 6") != std::string::npos);
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

TEST_CASE("magnitudes follow the weights that are loaded, unless they are loaded themselves") {
  const json adamw = {{"lr", 0.02}, {"betas", {0.9, 0.999}}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  const json dora = {{"type", "dora"}, {"match", {"model.linear2.weight"}}};
  const plait::test::Folder folder;
  const std::string alone = folder.path() + "/alone", tuned = folder.path() + "/tuned";
  const auto load = [](const std::string& from) { return "[model]\nload = \"" + from + "\"\n"; };
  const auto magnitude = [](const Run& run) {
    return read(run, "model.linear2.weight.dora.magnitude", 7);
  };
  {
    const Run run(experiment(json::array(), adamw, ""));
    write(run, "model.linear2.weight", std::vector<double>(77, 2));
    host::check(plait_session_save(run.session(), alone.c_str()));
  }
  std::vector<float> x(78, 0.5);
  std::vector<int32_t> target{0, 1, 2, 3, 4, 0};
  std::vector<double> learned;
  {
    const Run run(experiment(json::array({dora}), adamw, load(alone)));
    check_close(magnitude(run), std::vector<double>(7, 2 * std::sqrt(11.0)), 1e-14);
    step(run, x, target);
    learned = magnitude(run);
    host::check(plait_session_save(run.session(), tuned.c_str()));
  }
  const Run run(experiment(json::array({dora}), adamw, load(tuned)));
  CHECK(magnitude(run) == learned);
  CHECK(learned[0] != doctest::Approx(2 * std::sqrt(11.0)).epsilon(1e-6));
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

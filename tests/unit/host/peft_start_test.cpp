// Initial values of adapters that follow from the weights: DoRA, PiSSA.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "tests/support/folder.hpp"
#include "tests/unit/host/peft_runs.hpp"

using host::Run;
using nlohmann::json;
using plait::test::GoldenFile;
using namespace host::peft;

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

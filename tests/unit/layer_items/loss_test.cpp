// Losses and metrics: values compared with the golden file, weights, labels, and refused inputs.
#include <cmath>
#include <limits>

#include "tests/unit/layer_items/layer_bench.hpp"

using namespace plait;
using doctest::Approx;
using fake::Bench;
using fake::error_of;
using fake::Tensor;

namespace {
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// A bench whose samples have these weights.
struct Weighted : Bench {
  explicit Weighted(std::vector<double> w) {
    b.named["weight"] = Tensor({static_cast<int64_t>(w.size())}, w);
  }
};

bool near(const std::vector<double>& a, const std::vector<double>& b) {
  return fake::close(Tensor({static_cast<int64_t>(a.size())}, a),
                     Tensor({static_cast<int64_t>(b.size())}, b));
}

void check_golden(const std::string& loss, const std::string& prefix,
                  const fake::Options::Given& given = {}) {
  static const auto golden = fake::read_golden("losses");
  size_t cases = 0;
  for (const auto& [name, x] : golden) {
    if (name.rfind(prefix, 0) != 0 || name.substr(name.size() - 2) != "/x") continue;
    const std::string base = name.substr(0, name.size() - 1);
    if (loss == "cross_entropy" &&
        (base.find("smooth") != std::string::npos) != given.contains("label_smoothing"))
      continue;
    CAPTURE(base);
    Bench bench;
    bench.b.named["weight"] = golden.at(base + "w");
    const auto sums = bench.loss(loss, given, {x, golden.at(base + "target")});
    CHECK(sums[0] == Approx(golden.at(base + "sum_wl").v[0]).epsilon(1e-12));
    CHECK(sums[1] == Approx(golden.at(base + "sum_w").v[0]).epsilon(1e-12));
    ++cases;
  }
  CHECK(cases >= 6);
}
}  // namespace

TEST_CASE("losses give the golden sums") {
  check_golden("cross_entropy", "cross_entropy.");
  check_golden("cross_entropy", "cross_entropy.", {{"label_smoothing", "0.1"}});
  check_golden("mse", "mse.");
  check_golden("mae", "mae.");
  check_golden("huber", "huber.delta1.");
  check_golden("huber", "huber.delta0.5.", {{"delta", "0.5"}});
  check_golden("binary_cross_entropy", "bce_with_logits.");
}

TEST_CASE(
    "cross_entropy takes labels as (B), (B,1) and per token, of any integer type; negative ones "
    "don't count") {
  const double even = std::log(2.0);
  Weighted bench({1, 3});
  for (const uint32_t type : {PLAIT_U8, PLAIT_I32, PLAIT_I64}) {
    CAPTURE(type);
    const auto flat =
        bench.loss("cross_entropy", {}, {Tensor({2, 2}, {0}), Tensor({2}, {0, 1}, type)});
    CHECK(near(flat, {4 * even, 4}));
    const auto column =
        bench.loss("cross_entropy", {}, {Tensor({2, 2}, {0}), Tensor({2, 1}, {0, 1}, type)});
    CHECK(column[0] == Approx(4 * even));
    const auto tokens =
        bench.loss("cross_entropy", {}, {Tensor({2, 3, 2}, {0}), Tensor({2, 3}, {1}, type)});
    CHECK(near(tokens, {12 * even, 12}));
  }
  const auto ignored =
      bench.loss("cross_entropy", {}, {Tensor({2, 2}, {0}), Tensor({2}, {-1, 1}, PLAIT_I32)});
  CHECK(near(ignored, {3 * even, 3}));
  const auto some = bench.loss(
      "cross_entropy", {}, {Tensor({2, 2, 2}, {0}), Tensor({2, 2}, {-1, 1, 0, -100}, PLAIT_I64)});
  CHECK(near(some, {4 * even, 4}));
}

TEST_CASE("losses on values accept (B) beside (B,1), and integers") {
  Weighted bench({1, 0.5});
  const auto sums = bench.loss("mse", {}, {Tensor({2, 1}, {1, 2}), Tensor({2}, {3, 0}, PLAIT_U8)});
  CHECK(sums == std::vector<double>{4 + 2, 1.5});
  const auto grid = bench.loss("mae", {}, {Tensor({2, 2, 2}, {1}), Tensor({2, 4}, {0})});
  CHECK(grid == std::vector<double>{1.5, 1.5});
}

TEST_CASE("losses name both shapes, the type of labels, and the way out") {
  Weighted bench({1, 1});
  CHECK(error_of([&] {
          bench.loss("cross_entropy", {}, {Tensor({2, 28, 10}, {0}), Tensor({2}, {1}, PLAIT_U8)});
        }) ==
        "[model.it] the prediction has shape (2, 28, 10) and the labels (2), expected labels of "
        "shape (2, 28); put a "
        "`flatten` layer before the first `linear`");
  CHECK(error_of([&] {
          bench.loss("cross_entropy", {}, {Tensor({2, 10}, {0}), Tensor({2}, {1})});
        }) ==
        "[model.it] the labels are f32 (2), expected integers (u8, i32, i64); of a csv file "
        "set target_type = \"i32\", an array save as integers");
  CHECK(error_of([&] {
          bench.loss("cross_entropy", {}, {Tensor({2}, {0}), Tensor({2}, {1}, PLAIT_U8)});
        }).find("expected logits") != std::string::npos);
  CHECK(error_of([&] {
          bench.loss("mse", {}, {Tensor({2, 3}, {0}), Tensor({2, 2}, {0})});
        }) ==
        "[model.it] the prediction has shape (2, 3) and the target (2, 2), expected as many "
        "values; give the last layer as "
        "many outputs as a target has values");
  CHECK(error_of([&] {
          bench.loss("mse", {}, {Tensor({2, 3}, {0}), Tensor({3, 2}, {0})});
        }).find("(3, 2)") != std::string::npos);
}

TEST_CASE(
    "accuracy counts ties and NaN as misses, weighs samples, ignores labels that are no class") {
  double result = 0;
  Weighted bench({1, 2, 4, 8});
  const Tensor x({4, 3}, {0, 5, 1, /**/ 7, 7, 0, /**/ 1, kNan, 0, /**/ -kInf, -1, -2});
  auto state = bench.metric("accuracy", {}, {x, Tensor({4}, {1, 0, 0, 1}, PLAIT_U8)}, &result);
  CHECK(state == std::vector<double>{1 + 4 + 8, 15});
  CHECK(result == Approx(13.0 / 15));
  state = bench.metric("accuracy", {}, {x, Tensor({4}, {1, 1, 1, 9}, PLAIT_U8)});
  CHECK(state == std::vector<double>{1, 15});
  state = bench.metric("accuracy", {}, {x, Tensor({4, 1}, {-1, -1, 0, 1}, PLAIT_I32)});
  CHECK(state == std::vector<double>{12, 12});
  const Tensor tokens({4, 2, 2}, {0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0});
  state =
      bench.metric("accuracy", {}, {tokens, Tensor({4, 2}, {1, 1, 1, 0, 0, 0, 1, -1}, PLAIT_I64)});
  CHECK(state == std::vector<double>{1 + 4 + 4 + 8, 2 + 4 + 8 + 8});
}

TEST_CASE("accuracy of one logit is that of its sign") {
  Weighted bench({1, 1, 1, 1});
  CHECK(bench.metric("accuracy", {},
                     {Tensor({4, 1}, {2, -2, -2, kNan}), Tensor({4}, {1, 0, 1, 0}, PLAIT_U8)}) ==
        std::vector<double>{2, 4});
}

TEST_CASE("top_k counts how many logits reach the label's") {
  Weighted bench({1, 1, 1});
  const Tensor x({3, 4}, {4, 3, 2, 1, /**/ 4, 3, 2, 1, /**/ 5, 5, 5, 1});
  const Tensor label({3}, {1, 2, 0}, PLAIT_U8);
  CHECK(error_of([&] {
          bench.metric("top_k", {{"k", "4"}}, {x, label});
        }).find("use k < 4") != std::string::npos);
  CHECK(bench.metric("top_k", {{"k", "2"}}, {x, label}) == std::vector<double>{1, 3});
  CHECK(bench.metric("top_k", {{"k", "3"}}, {x, label}) == std::vector<double>{3, 3});
}

TEST_CASE("mae, mean_bias and perplexity; without any weight a result is NaN") {
  Weighted bench({1, 3});
  double result = 0;
  const std::vector<Tensor> in = {Tensor({2, 2}, {1, 2, 3, 4}), Tensor({2, 2}, {2, 2, 1, 4})};
  CHECK(bench.metric("mae", {}, in, &result) == std::vector<double>{0.5 + 3, 4});
  CHECK(result == 0.875);
  CHECK(bench.metric("mean_bias", {}, in) == std::vector<double>{-0.5 + 3, 4});
  bench.metric("perplexity", {}, {Tensor({2, 5}, {0}), Tensor({2}, {0}, PLAIT_U8)}, &result);
  CHECK(result == Approx(5));
  Weighted none({0, 0});
  none.metric("mae", {}, in, &result);
  CHECK(std::isnan(result));
}

TEST_CASE("metrics say whether more is better") {
  for (const auto& name : fake::layers().names(PLAIT_KIND_METRIC)) {
    const auto& item = fake::layers().item<plait_metric_item>(PLAIT_KIND_METRIC, name);
    CHECK(item.higher_is_better == (name == "accuracy" || name == "top_k"));
  }
}

TEST_CASE("an error of the builder reaches the caller untouched") {
  Bench bench;  // without weights
  try {
    bench.loss("mse", {}, {Tensor({2}, {0}), Tensor({2}, {0})});
    FAIL("expected an error");
  } catch (const fake::Failure& e) {
    CHECK(e.code == PLAIT_ERR_NOT_FOUND);
    CHECK(std::string(e.what()) == "[fake] nothing is named weight");
  }
}

// Batches fed by the host, views, and the limits of the interface: two engines, invalid arguments.
#include <algorithm>
#include <cmath>

#include "tests/unit/host/host.hpp"

using host::Run;
using host::small;

namespace {

// n samples of the synthetic data's shape (16 numbers) with labels.
struct Batch {
  std::vector<float> x;
  std::vector<int32_t> y;
  int64_t x_shape[2], y_shape[1];
  plait_dl_tensor tx{}, ty{};
  plait_feed feeds[2] = {};
  explicit Batch(int64_t n) : x(static_cast<size_t>(n) * 16), y(static_cast<size_t>(n)) {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7));
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int32_t>(i % 10);
    x_shape[0] = y_shape[0] = n;
    x_shape[1] = 16;
    tx = {x.data(), {1, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0};
    ty = {y.data(), {1, 0}, 1, {0, 32, 1}, y_shape, nullptr, 0};
    feeds[0] = {sizeof(plait_feed), "x", &tx};
    feeds[1] = {sizeof(plait_feed), "label", &ty};
  }
};

// Without dropout: the loss of a step is that of a prediction.
constexpr char kPlainLayers[] =
    "[[model.layers]]\ntype = \"flatten\"\n[[model.layers]]\ntype = \"linear\"\nout = 16\n"
    "[[model.layers]]\ntype = \"relu\"\n[[model.layers]]\ntype = \"linear\"\nout = 10\n";

plait_step_result step(const Run& run, const Batch& b) {
  plait_step_result r{};
  r.struct_size = sizeof r;
  host::check(plait_session_step(run.session(), b.feeds, 2, &r));
  return r;
}

}  // namespace

TEST_CASE("a host trains on its own batches, smaller ones are padded with weight 0") {
  const Run run(small());
  Batch full(12), part(5);
  CHECK(step(run, full).samples == 12);
  CHECK(step(run, part).samples == 17);
  const double first = step(run, full).loss;
  double last = first;
  for (int i = 0; i < 200; ++i) last = step(run, full).loss;
  CHECK(last < 0.5 * first);
}

// Every sample that is missing could change the loss by its weight, whatever was fed before.
TEST_CASE("the loss of a partial batch is the mean over its samples") {
  const Run run(small("", kPlainLayers));
  constexpr size_t kSamples = 5, kClasses = 10;
  Batch full(12), part(kSamples);
  step(run, full);
  std::vector<float> logits(kSamples * kClasses);
  host::check(plait_session_predict(run.session(), part.feeds, 1, "output", logits.data(),
                                    logits.size() * sizeof(float)));
  double expected = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    const float* const row = &logits[i * kClasses];
    double sum = 0;
    for (size_t k = 0; k < kClasses; ++k) sum += std::exp(double{row[k]});
    expected += (std::log(sum) - double{row[part.y[i]]}) / kSamples;
  }
  CHECK(step(run, part).loss == doctest::Approx(expected).epsilon(1e-5));
}

TEST_CASE("a partial batch is the batch whose other samples have weight 0") {
  const Run partial(small("", kPlainLayers)), weighted(small("", kPlainLayers));
  Batch full(12), part(5);
  std::vector<float> weights(12, 0.0f);
  std::fill_n(weights.begin(), 5, 1.0f);
  int64_t shape[1] = {12};
  plait_dl_tensor tensor{weights.data(), {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  const plait_feed feeds[3] = {
      full.feeds[0], full.feeds[1], {sizeof(plait_feed), "weight", &tensor}};
  for (int i = 0; i < 4; ++i) {
    const plait_step_result a = step(partial, part);
    plait_step_result b{};
    b.struct_size = sizeof b;
    host::check(plait_session_step(weighted.session(), feeds, 3, &b));
    CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-6));
    CHECK(a.grad_norm == doctest::Approx(b.grad_norm).epsilon(1e-5));
    CHECK(step(partial, full).loss == doctest::Approx(step(weighted, full).loss).epsilon(1e-6));
  }
}

TEST_CASE("a fed batch in micro-batches is the same batch, borrowed whole or copied short") {
  const Run whole(small()), split(small("", "", "global = 12\nmicro = 4"));
  for (int i = 0; i < 20; ++i) {
    const Batch b(i % 3 == 2 ? 7 : 12);
    const plait_step_result a = step(whole, b), c = step(split, b);
    CHECK(c.loss == doctest::Approx(a.loss).epsilon(1e-5));
    CHECK(c.grad_norm == doctest::Approx(a.grad_norm).epsilon(1e-4));
  }
}

TEST_CASE("prediction gives the rows of the host's samples") {
  const Run run(small());
  Batch b(5);
  std::vector<float> out(5 * 10, -77.0f);
  host::check(plait_session_predict(run.session(), b.feeds, 1, "output", out.data(),
                                    out.size() * sizeof(float)));
  // y = W2 relu(W1 x + b1) + b2, computed by hand.
  const auto w1 = run.read("model.linear1.weight", 256), b1 = run.read("model.linear1.bias", 16),
             w2 = run.read("model.linear2.weight", 160), b2 = run.read("model.linear2.bias", 10);
  for (size_t s = 0; s < 5; ++s)
    for (size_t o = 0; o < 10; ++o) {
      double y = b2[o];
      for (size_t h = 0; h < 16; ++h) {
        double a = b1[h];
        for (size_t i = 0; i < 16; ++i) a += double{w1[h * 16 + i]} * b.x[s * 16 + i];
        y += w2[o * 16 + h] * std::max(a, 0.0);
      }
      CHECK(out[s * 10 + o] == doctest::Approx(y).epsilon(1e-4).scale(1));
    }
}

TEST_CASE("prediction refuses ids that no op can take, and looks at no label") {
  const Run labels(small()),
      ids(small("",
                "[[model.layers]]\ntype = \"embedding\"\nfrom = \"label\"\nvocabulary = 10\n"
                "width = 4\n[[model.layers]]\ntype = \"linear\"\nout = 10\n"));
  Batch b(5);
  std::vector<float> out(5 * 10);
  const auto predict = [&](const Run& run, uint32_t first) {
    host::check(plait_session_predict(run.session(), b.feeds + first, 2 - first, "output",
                                      out.data(), out.size() * sizeof(float)));
  };
  predict(ids, 1);
  for (const int32_t bad : {10, -1}) {
    b.y[3] = bad;
    predict(labels, 0);
    const host::Failure f = host::failure_of([&] { predict(ids, 1); });
    CHECK(f.code == PLAIT_ERR_INVALID);
    CHECK(f.text.find("[feed] field 'label' is " + std::to_string(bad) +
                      " in the prediction, which is out of range: model.embedding1 has 10 entries, "
                      "0 to 9") != std::string::npos);
  }
  b.y[3] = 9;
  predict(ids, 1);
}

TEST_CASE("a feed that does not fit is refused by field, found and expected") {
  const Run run(small());
  Batch b(12);
  auto text = [&] { return host::failure_of([&] { step(run, b); }).text; };
  b.feeds[0].field = "y";
  CHECK(text().find("the program reads no field 'y'") != std::string::npos);
  b.feeds[0].field = b.feeds[1].field;
  CHECK(text().find("is given twice") != std::string::npos);
  b.feeds[0].field = "x";
  b.x_shape[1] = 15;
  CHECK(text().find("has shape (12, 15)") != std::string::npos);
  b.x_shape[1] = 16;
  b.tx.dtype.bits = 64;
  CHECK(text().find("[feed] field 'x' is f64, expected f32") != std::string::npos);
  b.tx.dtype.bits = 32;
  b.x_shape[0] = 13;
  CHECK(text().find("has shape (13, 16)") != std::string::npos);
  b.x_shape[0] = 11;
  CHECK(text().find("samples") != std::string::npos);
  b.x_shape[0] = 12;
  b.tx.device.type = 2;
  CHECK(text().find("host memory") != std::string::npos);
  b.tx.device.type = 1;
  int64_t strides[2] = {1, 12};
  b.tx.strides = strides;
  CHECK(text().find("row-major") != std::string::npos);
  b.tx.strides = nullptr;
  b.tx.data = nullptr;
  CHECK(text().find("[feed] field 'x' has no data") != std::string::npos);
  b.tx.data = b.x.data();
  b.tx.dtype = {9, 7, 1};
  CHECK(text().find("has element type code 9, 7 bits, expected f32") != std::string::npos);
  b.tx.dtype = {2, 32, 1};
  b.x_shape[0] = -1;
  CHECK(text().find("has shape (-1, 16)") != std::string::npos);
  b.x_shape[0] = 12;
  const auto text_of = [&](const plait_feed* feeds, uint64_t n) {
    plait_step_result r{};
    r.struct_size = sizeof r;
    return host::failure_of([&] { host::check(plait_session_step(run.session(), feeds, n, &r)); })
        .text;
  };
  CHECK(text_of(b.feeds, 1).find("[feed] field 'label' is missing; expected up to i32 (12)") !=
        std::string::npos);
  std::vector<float> weights(12, 1.0f);
  int64_t shape[1] = {11};
  plait_dl_tensor weight{weights.data(), {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  const plait_feed feeds[3] = {b.feeds[0], b.feeds[1], {sizeof(plait_feed), "weight", &weight}};
  CHECK(text_of(feeds, 3).find("[feed] 'weight' must have one number per sample") !=
        std::string::npos);
  shape[0] = 12;
  CHECK(text_of(feeds, 3) == "no error");
}

TEST_CASE("a view shows the parameter without a copy and outlives everything it came from") {
  plait_dl_managed* view = nullptr;
  {
    const Run run(small());
    host::check(plait_session_view(run.session(), "model.linear1.weight", &view));
    REQUIRE(view->tensor.ndim == 2);
    CHECK(view->tensor.shape[0] == 16);
    CHECK(view->tensor.strides[0] == 16);
    const auto before = run.read("model.linear1.weight", 256);
    const auto* shown = static_cast<const float*>(view->tensor.data);
    CHECK(std::equal(before.begin(), before.end(), shown));
    run.step();
    CHECK(!std::equal(before.begin(), before.end(), shown));
  }
  const float* data = static_cast<const float*>(view->tensor.data);
  double sum = 0;
  for (int i = 0; i < 256; ++i) sum += std::abs(data[i]);
  CHECK(sum > 0);
  view->deleter(view);
}

TEST_CASE("two engines in one process never meet") {
  const Run a(small()), b(small());
  const auto la = a.losses(5);
  a.losses(20);
  CHECK(b.losses(5) == la);
}

TEST_CASE("releasing functions take NULL") {
  plait_error_free(nullptr);
  plait_text_free(nullptr);
  plait_engine_close(nullptr);
  plait_experiment_close(nullptr);
  plait_plan_close(nullptr);
  plait_session_close(nullptr);
  plait_session_cancel(nullptr);
  CHECK(plait_error_code(nullptr) == PLAIT_OK);
}

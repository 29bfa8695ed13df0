// Averages of an interval, computed by hand.
#include "engine/session/step_meter.hpp"

#include <doctest/doctest.h>

namespace {

using plait::session::MeterUnits;
using plait::session::StepMeter;
using plait::session::StepResult;

constexpr uint64_t kSecond = 1'000'000'000;

// 3 steps a line; 10 tokens and 2 TFLOP (3 without masks) a sample.
constexpr MeterUnits kUnits{3, 10, 2e12, 3e12};

StepResult add(StepMeter& meter, int64_t step, double begin, double end, int64_t samples,
               double loss, double peak = 0, bool skipped = false) {
  StepResult r;
  r.step = step;
  r.loss = loss;
  r.skipped = skipped;
  meter.add({static_cast<uint64_t>(begin * kSecond), static_cast<uint64_t>(end * kSecond), samples},
            peak, r);
  return r;
}

}  // namespace

TEST_CASE("an interval has the mean of its steps, and the next one begins anew") {
  StepMeter meter(kUnits);
  meter.follow(true);
  StepResult r = add(meter, 1, 10, 12, 8, 6);
  CHECK(r.samples_per_s == doctest::Approx(4));
  CHECK(r.mean_loss == doctest::Approx(6));
  // The second step began at 13, but inside of run() the second between them counts.
  r = add(meter, 2, 13, 14, 8, 4);
  CHECK(r.samples_per_s == doctest::Approx(4));
  CHECK(r.mean_loss == doctest::Approx(5));
  r = add(meter, 3, 14, 20, 4, 2);  // a smaller batch; the line of metrics
  CHECK(r.samples_per_s == doctest::Approx(2));
  CHECK(r.tokens_per_s == doctest::Approx(20));
  CHECK(r.tflops == doctest::Approx(4));
  CHECK(r.tflops_full == doctest::Approx(6));
  CHECK(r.mean_loss == doctest::Approx(4));
  r = add(meter, 4, 20, 21, 5, 1);
  CHECK(r.samples_per_s == doctest::Approx(5));
  CHECK(r.mean_loss == doctest::Approx(1));
}

TEST_CASE("pauses do not count, nor does the time between two calls of a host") {
  StepMeter meter(kUnits);
  meter.follow(true);
  add(meter, 1, 0, 1, 4, 1);
  meter.pause();  // an evaluation of 9 seconds
  CHECK(add(meter, 2, 10, 11, 4, 1).samples_per_s == doctest::Approx(4));
  StepMeter host(kUnits);
  add(host, 1, 0, 1, 4, 1);
  CHECK(add(host, 2, 100, 101, 4, 1).samples_per_s == doctest::Approx(4));
}

TEST_CASE("the time of all steps has neither pauses nor what lies between two runs") {
  StepMeter meter(kUnits);
  CHECK(meter.total_seconds() == 0);
  meter.follow(true);
  add(meter, 1, 0, 1, 4, 1);
  add(meter, 2, 2, 3, 4, 1);  // with the second before it
  meter.pause();              // an evaluation of 7 seconds
  add(meter, 3, 10, 12, 4, 1);
  CHECK(meter.total_seconds() == doctest::Approx(5));
  meter.restart();  // a checkpoint was loaded
  meter.follow(true);
  add(meter, 4, 20, 21, 4, 1);
  CHECK(meter.total_seconds() == doctest::Approx(6));
}

TEST_CASE("a step that was launched while the one before it ran takes the time from its end") {
  StepMeter meter(kUnits);
  add(meter, 1, 0, 2, 4, 1);
  CHECK(add(meter, 2, 1, 4, 4, 1).samples_per_s == doctest::Approx(2));
}

TEST_CASE("a skipped step takes time and has no loss, and its line ends the interval") {
  StepMeter meter(kUnits);
  add(meter, 1, 0, 1, 4, 3);
  StepResult r = add(meter, 2, 1, 2, 4, 1e30, 0, true);
  CHECK(r.mean_loss == doctest::Approx(3));
  CHECK(r.samples_per_s == doctest::Approx(4));
  CHECK(add(meter, 3, 2, 4, 4, 5).mean_loss == doctest::Approx(5));
  // Without a finite step the loss is that of the step.
  StepMeter other(kUnits);
  CHECK(add(other, 1, 0, 1, 4, 7, 0, true).mean_loss == doctest::Approx(7));
}

TEST_CASE("a line, a restart and the last step end an interval, and the next one says so") {
  StepMeter meter(kUnits);
  meter.follow(true);
  const auto begins = [&](int64_t step, double loss, bool finished = false) {
    StepResult r;
    r.step = step;
    r.loss = loss;
    r.finished = finished;
    const auto at = static_cast<uint64_t>(step) * 10 * kSecond;
    const bool first = meter.add({at, at + kSecond, 4}, 0, r);
    CHECK((r.mean_loss == loss) == first);
    if (first && step != 4) CHECK(r.samples_per_s == doctest::Approx(4));
    return first;
  };
  CHECK(begins(1, 1));
  CHECK_FALSE(begins(2, 2));
  CHECK_FALSE(begins(3, 3));  // a line
  CHECK(begins(4, 4));        // with the 9 seconds before it
  meter.restart();
  CHECK(begins(5, 5));
  meter.pause();
  CHECK_FALSE(begins(7, 7, true));
  meter.pause();
  CHECK(begins(8, 8));
}

TEST_CASE("a step that took no time has no rate") {
  StepMeter meter(kUnits);
  const StepResult r = add(meter, 1, 5, 5, 8, 3, 16e12);
  CHECK(r.mean_loss == doctest::Approx(3));
  CHECK(r.samples_per_s == 0);
  CHECK(r.tokens_per_s == 0);
  CHECK(r.mfu == 0);
}

TEST_CASE("the share of the peak is known only with the peak") {
  StepMeter meter(kUnits);
  StepResult r = add(meter, 1, 0, 1, 4, 1);  // 8 TFLOP in a second
  CHECK(r.mfu == 0);
  CHECK(r.mfu_full == 0);
  meter.restart();
  r = add(meter, 2, 5, 6, 4, 1, 16e12);
  CHECK(r.mfu == doctest::Approx(0.5));
  CHECK(r.mfu_full == doctest::Approx(0.75));
}

TEST_CASE("a model without tokens or products has neither rate") {
  StepMeter meter({1, 0, 0, 0});
  const StepResult r = add(meter, 1, 0, 1, 4, 1, 16e12);
  CHECK(r.samples_per_s == doctest::Approx(4));
  CHECK(r.tokens_per_s == 0);
  CHECK(r.tflops == 0);
  CHECK(r.mfu == 0);
}

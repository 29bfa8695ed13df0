// Schedules compared with the golden tables and at their limits.
#include <doctest/doctest.h>

#include "tests/unit/support/golden.hpp"

using namespace plait;

namespace {

class Schedule {
 public:
  Schedule(const std::string& name, const fake::Options::Given& given, int64_t total) {
    host_.load("schedule-" + name);
    item_ = &host_.item<plait_schedule_item>(PLAIT_KIND_SCHEDULE, name);
    options_ = fake::options_of(*item_, given);
    fake::check(item_->open(host_.raw(), options_->raw(), total, &state_));
  }
  Schedule(const Schedule&) = delete;
  ~Schedule() {
    if (state_) item_->close(state_);
  }
  double operator()(int64_t step) const { return item_->factor(state_, step); }

 private:
  fake::Host host_;
  const plait_schedule_item* item_;
  std::unique_ptr<fake::Options> options_;
  void* state_ = nullptr;
};

std::string error_of(const std::string& name, const fake::Options::Given& given, int64_t total) {
  try {
    Schedule s(name, given, total);
  } catch (const fake::Failure& e) {
    CHECK(e.code == PLAIT_ERR_CONFIG);
    return e.what();
  }
  return "";
}

struct Case {
  const char* table;
  const char* name;
  fake::Options::Given given;
  double rate, minimum;
};
const Case kCases[] = {
    {"constant", "constant", {}, 0.01, 0},
    {"constant.warmup", "constant", {{"warmup_steps", "20"}}, 0.01, 0},
    {"constant.delay_warmup", "constant", {{"warmup_steps", "20"}, {"delay_steps", "7"}}, 0.01, 0},
    {"linear", "linear", {{"total_steps", "200"}}, 0.01, 0},
    {"linear.minimum", "linear", {{"total_steps", "150"}}, 0.01, 0.001},
    {"linear.delay_warmup",
     "linear",
     {{"total_steps", "160"}, {"delay_steps", "5"}, {"warmup_steps", "13"}},
     0.02,
     0.001},
    {"cosine", "cosine", {{"total_steps", "1000"}}, 0.01, 0},
    {"cosine.minimum", "cosine", {{"total_steps", "150"}}, 0.01, 0.001},
    {"cosine.warmup", "cosine", {{"total_steps", "200"}, {"warmup_steps", "20"}}, 3e-4, 3e-5},
    {"cosine.delay_warmup",
     "cosine",
     {{"total_steps", "160"}, {"delay_steps", "5"}, {"warmup_steps", "13"}},
     0.02,
     0.001},
    {"cosine.delay", "cosine", {{"total_steps", "120"}, {"delay_steps", "9"}}, 0.02, 0},
    {"wsd.linear",
     "wsd",
     {{"total_steps", "180"}, {"warmup_steps", "20"}, {"decay_steps", "40"}},
     0.01,
     0},
    {"wsd.cosine",
     "wsd",
     {{"total_steps", "180"},
      {"warmup_steps", "20"},
      {"delay_steps", "5"},
      {"decay_steps", "60"},
      {"decay_style", "\"cosine\""}},
     0.01,
     0.002},
    {"wsd.sqrt",
     "wsd",
     {{"total_steps", "190"},
      {"warmup_steps", "20"},
      {"decay_steps", "50"},
      {"decay_style", "\"sqrt\""}},
     0.01,
     0.0005},
    {"inverse_sqrt", "inverse_sqrt", {}, 0.01, 0},
    {"inverse_sqrt.warmup", "inverse_sqrt", {{"warmup_steps", "25"}}, 0.01, 0},
    {"inverse_sqrt.delay_warmup",
     "inverse_sqrt",
     {{"warmup_steps", "25"}, {"delay_steps", "6"}},
     0.01,
     0.004},
};

}  // namespace

TEST_CASE("every schedule gives the golden rates") {
  const auto golden = fake::read_golden("schedules");
  for (const Case& c : kCases) {
    CAPTURE(c.table);
    fake::Options::Given given = c.given;
    if (c.minimum != 0) given["min_ratio"] = std::to_string(c.minimum / c.rate);
    const Schedule schedule(c.name, given, 0);
    const fake::Tensor& rates = golden.at(std::string("schedule.") + c.table + "/rate");
    for (size_t i = 0; i < rates.size(); ++i)
      REQUIRE(c.rate * schedule(static_cast<int64_t>(i) + 1) ==
              doctest::Approx(rates.v[i]).epsilon(1e-9));
  }
}

TEST_CASE("without `total_steps` a decay ends with the run") {
  for (const char* name : {"linear", "cosine", "wsd"}) {
    CAPTURE(name);
    const Schedule schedule(name, {{"min_ratio", "0.25"}}, 60);
    CHECK(schedule(60) == doctest::Approx(0.25));
    CHECK(schedule(59) > 0.25);
    CHECK(schedule(61) == 0.25);
    CHECK(error_of(name, {}, 0) ==
          std::string("[") + name +
              "] the length of the run is unknown; give the schedule `total_steps`");
  }
}

TEST_CASE("a run shorter than its warmup ends inside it") {
  const Schedule schedule("cosine", {{"warmup_steps", "100"}}, 10);
  CHECK(schedule(10) == doctest::Approx(0.1));
  CHECK(schedule(100) == 1);
  CHECK(schedule(101) == 0);
}

TEST_CASE(
    "wsd cools down over a fifth of the steps unless told otherwise, never before the warmup's "
    "end") {
  const Schedule plain("wsd", {}, 100);
  CHECK(plain(80) == 1);
  CHECK(plain(90) == doctest::Approx(0.5));
  CHECK(plain(100) == 0);
  const Schedule tight("wsd", {{"warmup_steps", "50"}, {"decay_steps", "90"}}, 100);
  CHECK(tight(50) == 1);
  CHECK(tight(75) == doctest::Approx(0.5));
  const Schedule long_cooldown("wsd", {{"decay_steps", "1000"}}, 100);
  CHECK(long_cooldown(50) == doctest::Approx(0.5));
}

TEST_CASE("steps that do not hold the warmup are refused") {
  CHECK(
      error_of("linear", {{"total_steps", "10"}, {"warmup_steps", "8"}, {"delay_steps", "3"}}, 0) ==
      "[linear] total_steps is 10, expected at least delay_steps + warmup_steps = 11, which it "
      "includes; set at "
      "experiment.toml:7:1");
  CHECK(error_of("constant", {{"delay_steps", "9223372036854775807"}, {"warmup_steps", "1"}}, 0)
            .find("2^63") != std::string::npos);
}

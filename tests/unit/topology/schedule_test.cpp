#include "engine/topology/schedule.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>

#include "engine/base/error.hpp"

namespace {

using namespace plait::topology;  // NOLINT: a test of this module

constexpr ScheduleKind kMethods[] = {ScheduleKind::kForwardOnly, ScheduleKind::kGPipe,
                                     ScheduleKind::k1F1B, ScheduleKind::kInterleaved,
                                     ScheduleKind::kZeroBubble};

// Every schedule with P up to 6, V up to 4, M up to 20.
void for_all(const std::function<void(const Schedule&)>& check) {
  for (const ScheduleKind method : kMethods)
    for (int32_t ranks = 1; ranks <= 6; ++ranks)
      for (int32_t chunks = 1; chunks <= 4; ++chunks)
        for (int64_t micro_batches = 1; micro_batches <= 20; ++micro_batches) {
          const bool chunked =
              method == ScheduleKind::kInterleaved || method == ScheduleKind::kForwardOnly;
          if (chunks == 1 || chunked) check(make_schedule(method, {ranks, chunks}, micro_batches));
        }
}

// "F0 F1 B0": the actions of one rank; chunks above 0 with a dot: "F1.0".
std::string text(const Schedule& schedule, size_t rank) {
  std::string all;
  for (const Action& a : schedule.actions[rank]) {
    if (!all.empty()) all += " ";
    all += action_letter(a.kind);
    if (schedule.shape.chunks > 1) all += std::to_string(a.chunk) + ".";
    all += std::to_string(a.micro);
  }
  return all;
}

}  // namespace

TEST_CASE("schedule: each chunk, kind and micro-batch once, micro-batches ascending") {
  for_all([](const Schedule& schedule) {
    check_complete(schedule);
    for (const auto& actions : schedule.actions) {
      std::map<std::pair<int32_t, ActionKind>, int32_t> last;
      for (const Action& a : actions) {
        const auto found = last.try_emplace({a.chunk, a.kind}, -1).first;
        REQUIRE(a.micro == found->second + 1);
        found->second = a.micro;
      }
    }
  });
}

TEST_CASE("schedule: a micro-batch is held in slot m % peak of its chunk, which is free then") {
  for_all([](const Schedule& schedule) {
    const ActionKind end = schedule.method == ScheduleKind::kForwardOnly ? ActionKind::kForward
                           : schedule.split_backward ? ActionKind::kBackwardWeight
                                                     : ActionKind::kBackward;
    for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
      const LiveMicroBatches peaks = live_micro_batches(schedule, rank);
      std::map<std::pair<int32_t, int32_t>, int32_t> slots;
      for (const Action& a : schedule.actions[static_cast<size_t>(rank)]) {
        const std::pair slot(a.chunk, a.micro % peaks.of_chunk[static_cast<size_t>(a.chunk)]);
        if (a.kind == ActionKind::kForward) REQUIRE(slots.emplace(slot, a.micro).second);
        REQUIRE(slots.at(slot) == a.micro);
        if (a.kind == end) slots.erase(slot);
      }
      REQUIRE(slots.empty());
    }
  });
}

TEST_CASE("schedule: each sent value is received, and each forward has its gradient") {
  for_all([](const Schedule& schedule) {
    std::map<std::tuple<ActionKind, int32_t, int32_t>, int> balance;
    for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank)
      for (const Action& a : schedule.actions[static_cast<size_t>(rank)]) {
        if (const auto m = sent_by(schedule, rank, a)) {
          REQUIRE(m->from == rank);
          ++balance[{m->kind, m->stage, m->micro}];
        }
        if (const auto m = received_by(schedule, rank, a)) {
          REQUIRE(m->to == rank);
          --balance[{m->kind, m->stage, m->micro}];
        }
      }
    for (const auto& [message, left] : balance) REQUIRE(left == 0);
    const int32_t passes = schedule.method == ScheduleKind::kForwardOnly ? 1 : 2;
    REQUIRE(balance.size() ==
            static_cast<size_t>(passes * (schedule.shape.stages() - 1) * schedule.micro_batches));
  });
}

TEST_CASE("schedule: known orders") {
  const Schedule gpipe = make_schedule(ScheduleKind::kGPipe, {2, 1}, 2);
  CHECK(text(gpipe, 0) == "F0 F1 B0 B1");
  const Schedule turn = make_schedule(ScheduleKind::k1F1B, {3, 1}, 4);
  CHECK(text(turn, 0) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(text(turn, 1) == "F0 F1 B0 F2 B1 F3 B2 B3");
  CHECK(text(turn, 2) == "F0 B0 F1 B1 F2 B2 F3 B3");
  const Schedule chunks = make_schedule(ScheduleKind::kInterleaved, {2, 2}, 4);
  CHECK(text(chunks, 0) ==
        "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3");
  CHECK(text(chunks, 1) ==
        "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3");
  const Schedule zero = make_schedule(ScheduleKind::kZeroBubble, {2, 1}, 3);
  CHECK(text(zero, 0) == "F0 F1 B0 W0 F2 B1 W1 B2 W2");
  CHECK(text(zero, 1) == "F0 B0 F1 B1 W0 F2 B2 W1 W2");
  CHECK(text(make_schedule(ScheduleKind::kForwardOnly, {2, 2}, 2), 1) == "F0.0 F0.1 F1.0 F1.1");
}

TEST_CASE("schedule: values held by the ranks") {
  for (int32_t ranks = 1; ranks <= 8; ++ranks)
    for (int32_t micro_batches = 1; micro_batches <= 20; ++micro_batches)
      for (int32_t rank = 0; rank < ranks; ++rank) {
        const auto peak = [&](ScheduleKind m) {
          return live_micro_batches(make_schedule(m, {ranks, 1}, micro_batches), rank).peak;
        };
        REQUIRE(peak(ScheduleKind::kGPipe) == micro_batches);
        REQUIRE(peak(ScheduleKind::k1F1B) == std::min(micro_batches, ranks - rank));
        REQUIRE(peak(ScheduleKind::kZeroBubble) == std::min(micro_batches, ranks));
        REQUIRE(peak(ScheduleKind::kForwardOnly) == 1);
      }
  const Schedule chunks = make_schedule(ScheduleKind::kInterleaved, {4, 2}, 8);
  CHECK(live_micro_batches(chunks, 0).peak == 2 * 3 + 4 + 1);
  CHECK(live_micro_batches(chunks, 0).of_chunk == std::vector<int32_t>{8, 4});
}

TEST_CASE("schedule: names") {
  for (const ScheduleKind method : kMethods)
    CHECK(schedule_kind_named(schedule_name(method)) == method);
  CHECK_THROWS_WITH(
      schedule_kind_named("1fb1"),
      "[topology] topology.schedule: no schedule '1fb1' (did you mean '1f1b'?); use one of "
      "forward, gpipe, 1f1b, interleaved, zero_bubble");
}

TEST_CASE("schedule: impossible ones name the keys") {
  CHECK_THROWS_WITH(
      make_schedule(ScheduleKind::k1F1B, {2, 2}, 4),
      "[topology] topology.virtual_stages: schedule '1f1b' has one stage on each rank, found 2; "
      "use virtual_stages = 1, or schedule = \"interleaved\"");
  CHECK_THROWS_WITH(
      make_schedule(ScheduleKind::k1F1B, {0, 1}, 0),
      "[topology] topology.pipeline: found 0, expected 1 or more; use 1 for an axis that is not "
      "used\n[topology] batch.accumulation: found 0, expected 1 or more; a step needs a "
      "micro-batch");
  CHECK_THROWS_AS(make_schedule(ScheduleKind::kInterleaved, {INT32_MAX, INT32_MAX}, INT64_MAX),
                  plait::Error);
  CHECK_THROWS_AS(make_schedule(ScheduleKind::kGPipe, {1, 1}, INT64_MAX), plait::Error);
  // Three times as much would not be a positive number of 64 bits.
  CHECK_THROWS_AS(make_schedule(ScheduleKind::kGPipe, {1, 1}, int64_t{1} << 62), plait::Error);
  CHECK_THROWS_AS(make_schedule(ScheduleKind::kInterleaved, {INT32_MAX, INT32_MAX}, 1),
                  plait::Error);
}

TEST_CASE("schedule: an incomplete one is refused") {
  Schedule schedule = make_schedule(ScheduleKind::k1F1B, {2, 1}, 2);
  schedule.actions[1].pop_back();
  CHECK_THROWS_WITH(
      check_complete(schedule),
      "[topology] rank 1 of a schedule has B of micro-batch 1 in stage 1 0 times, expected "
      "once");
  schedule.actions[1].push_back({0, ActionKind::kForward, 1});
  CHECK_THROWS_AS(check_complete(schedule), plait::Error);
  schedule.actions[1].back() = {1, ActionKind::kForward, 1};
  CHECK_THROWS_AS(check_complete(schedule), plait::Error);
  schedule.actions[1].back() = {0, ActionKind::kBackwardWeight, 1};
  CHECK_THROWS_AS(check_complete(schedule), plait::Error);
  schedule.actions.pop_back();
  CHECK_THROWS_WITH(check_complete(schedule), "[topology] a schedule for 2 ranks has 1 lists");
}

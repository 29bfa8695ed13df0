#include "engine/topology/simulate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include "engine/base/error.hpp"

namespace {

using namespace plait::topology;  // NOLINT: a test of this module
using doctest::Approx;

constexpr ScheduleKind kMethods[] = {ScheduleKind::kForwardOnly, ScheduleKind::kGPipe,
                                     ScheduleKind::k1F1B, ScheduleKind::kInterleaved,
                                     ScheduleKind::kZeroBubble};

Timeline run(ScheduleKind method, int32_t ranks, int32_t chunks, int64_t micro_batches,
             double transfer = 0) {
  const Schedule schedule = make_schedule(method, {ranks, chunks}, micro_batches);
  return simulate(schedule, durations(schedule, StageCost{}), transfer);
}

// Every action begins after its inputs are computed and have arrived, and no rank runs two actions
// at once.
void check_order(const Schedule& schedule, const Durations& times, const Timeline& timeline,
                 double transfer) {
  std::map<std::tuple<int32_t, ActionKind, int32_t>, double> end, left;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank)
    for (size_t i = 0; i < timeline.spans[static_cast<size_t>(rank)].size(); ++i) {
      const Action& a = schedule.actions[static_cast<size_t>(rank)][i];
      const Span span = timeline.spans[static_cast<size_t>(rank)][i];
      const auto key = std::tuple(schedule.shape.stage(rank, a.chunk), a.kind, a.micro);
      end[key] = span.end;
      // Chunks of one rank are consecutive.
      left[key] = schedule.shape.ranks > 1 ? span.begin + times[static_cast<size_t>(rank)][i].sent
                                           : span.end;
    }
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    double before = 0;
    for (size_t i = 0; i < timeline.spans[static_cast<size_t>(rank)].size(); ++i) {
      const Action& a = schedule.actions[static_cast<size_t>(rank)][i];
      const Span span = timeline.spans[static_cast<size_t>(rank)][i];
      const int32_t stage = schedule.shape.stage(rank, a.chunk);
      REQUIRE(span.begin >= before);
      before = span.end;
      const double sent = schedule.shape.ranks > 1 ? transfer : 0;
      if (a.kind == ActionKind::kForward && stage > 0)
        REQUIRE(span.begin >= left.at({stage - 1, ActionKind::kForward, a.micro}) + sent);
      if (a.kind == ActionKind::kBackward)
        REQUIRE(span.begin >= end.at({stage, ActionKind::kForward, a.micro}));
      if (a.kind == ActionKind::kBackward && stage + 1 < schedule.shape.stages())
        REQUIRE(span.begin >= left.at({stage + 1, ActionKind::kBackward, a.micro}) + sent);
      if (a.kind == ActionKind::kBackwardWeight)
        REQUIRE(span.begin >= end.at({stage, ActionKind::kBackward, a.micro}));
    }
  }
}

}  // namespace

TEST_CASE("simulate: GPipe and 1F1B idle (P - 1) / (M + P - 1) of the time") {
  for (int32_t ranks = 1; ranks <= 8; ++ranks)
    for (int64_t micro_batches = 1; micro_batches <= 24; ++micro_batches) {
      const double idle = (ranks - 1.0) / (static_cast<double>(micro_batches) + ranks - 1);
      for (const ScheduleKind method : {ScheduleKind::kGPipe, ScheduleKind::k1F1B}) {
        const Timeline timeline = run(method, ranks, 1, micro_batches);
        REQUIRE(timeline.idle_fraction == Approx(idle));
        for (const double of_rank : timeline.idle) REQUIRE(of_rank == Approx(idle));
      }
    }
}

TEST_CASE("simulate: V chunks divide the idle time by V, whether P divides M or not") {
  for (int32_t ranks = 1; ranks <= 8; ++ranks)
    for (int32_t chunks = 1; chunks <= 4; ++chunks)
      for (int64_t micro_batches = ranks; micro_batches <= 3 * ranks + 2; ++micro_batches) {
        const Schedule schedule =
            make_schedule(ScheduleKind::kInterleaved, {ranks, chunks}, micro_batches);
        // A chunk is 1/V of a rank's computation.
        const double part = 1.0 / chunks;
        const Timeline timeline = simulate(schedule, durations(schedule, {part, part, part}));
        const double busy = 3.0 * static_cast<double>(micro_batches),
                     idle = 3.0 * (ranks - 1) / chunks;
        REQUIRE(timeline.total == Approx(busy + idle));
        REQUIRE(timeline.idle_fraction == Approx(idle / timeline.total));
      }
}

TEST_CASE("simulate: with fewer micro-batches than ranks interleaving still pays") {
  for (int32_t ranks = 2; ranks <= 8; ++ranks)
    for (int32_t chunks = 2; chunks <= 4; ++chunks)
      for (int64_t micro_batches = 1; micro_batches < ranks; ++micro_batches)
        REQUIRE(run(ScheduleKind::kInterleaved, ranks, chunks, micro_batches).idle_fraction <=
                run(ScheduleKind::k1F1B, ranks, 1, micro_batches).idle_fraction + 1e-12);
}

TEST_CASE("simulate: ZB-H1 idles a third of the time of 1F1B") {
  for (int32_t ranks = 2; ranks <= 8; ++ranks)
    for (int64_t micro_batches = 1; micro_batches <= 24; ++micro_batches) {
      const Timeline zero = run(ScheduleKind::kZeroBubble, ranks, 1, micro_batches);
      REQUIRE(zero.idle_fraction < run(ScheduleKind::k1F1B, ranks, 1, micro_batches).idle_fraction);
      // (P - 1)(F + B - W)
      if (micro_batches >= ranks)
        REQUIRE(zero.total == Approx(3.0 * static_cast<double>(micro_batches) + ranks - 1));
    }
}

TEST_CASE("simulate: forward passes alone idle (P - 1) / (M + P - 1)") {
  for (int32_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t micro_batches = 1; micro_batches <= 12; ++micro_batches)
      REQUIRE(run(ScheduleKind::kForwardOnly, ranks, 1, micro_batches).total ==
              Approx(static_cast<double>(micro_batches) + ranks - 1));
}

TEST_CASE("simulate: random times never stop a schedule, and order is kept") {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> time(0, 3), share(0, 1);
  for (const ScheduleKind method : kMethods)
    for (int32_t ranks = 1; ranks <= 8; ++ranks)
      for (int32_t chunks = 1; chunks <= 4; ++chunks)
        for (int64_t micro_batches = 1; micro_batches <= 26; ++micro_batches) {
          if (chunks > 1 && method != ScheduleKind::kInterleaved &&
              method != ScheduleKind::kForwardOnly)
            continue;
          const Schedule schedule = make_schedule(method, {ranks, chunks}, micro_batches);
          Durations times = durations(schedule, StageCost{});
          for (auto& of_rank : times)
            for (Duration& t : of_rank) {
              t = time(random);
              t.sent = t.total * share(random);
            }
          const double transfer = time(random);
          check_order(schedule, times, simulate(schedule, times, transfer), transfer);
        }
}

TEST_CASE("simulate: messages of one kind on one link are used in the order they were sent") {
  std::mt19937_64 random(12);
  std::uniform_real_distribution<double> time(0.1, 3);
  for (const ScheduleKind method : kMethods)
    for (int32_t ranks = 2; ranks <= 6; ++ranks)
      for (int32_t chunks = 1; chunks <= 3; ++chunks)
        for (int64_t micro_batches = 1; micro_batches <= 15; ++micro_batches) {
          if (chunks > 1 && method != ScheduleKind::kInterleaved &&
              method != ScheduleKind::kForwardOnly)
            continue;
          const Schedule schedule = make_schedule(method, {ranks, chunks}, micro_batches);
          Durations times = durations(schedule, StageCost{});
          for (auto& of_rank : times)
            for (Duration& t : of_rank) t = time(random);
          const Timeline timeline = simulate(schedule, times);
          std::map<std::tuple<int32_t, int32_t, ActionKind>, std::vector<std::pair<double, double>>>
              links;
          for (const Transfer& t : timeline.transfers)
            links[{t.message.from, t.message.to, t.message.kind}].push_back({t.sent, t.used});
          REQUIRE(links.size() == timeline.links.size());
          for (auto& [link, messages] : links) {
            std::sort(messages.begin(), messages.end());
            for (size_t i = 1; i < messages.size(); ++i)
              REQUIRE(messages[i - 1].second <= messages[i].second);
          }
        }
}

TEST_CASE("simulate: times, idle shares, holds and messages of a small schedule") {
  const Schedule schedule = make_schedule(ScheduleKind::k1F1B, {2, 1}, 2);
  const Timeline t = simulate(schedule, durations(schedule, {1, 1, 1}), 0.5);
  // rank 0: F0 F1 . B0 B1   rank 1: F0 B0 F1 B1
  CHECK(t.spans[0] == std::vector<Span>{{0, 1}, {1, 2}, {5, 7}, {8, 10}});
  CHECK(t.spans[1] == std::vector<Span>{{1.5, 2.5}, {2.5, 4.5}, {4.5, 5.5}, {5.5, 7.5}});
  CHECK(t.total == 10);
  CHECK(t.idle[0] == Approx(0.4));
  CHECK(t.idle_fraction == Approx(0.4));
  CHECK(t.live[0].peak == 2);
  CHECK(t.live[1].peak == 1);
  CHECK(t.transfers.size() == 4);
  CHECK(t.links ==
        std::vector<Link>{{0, 1, ActionKind::kForward, 2, 1}, {1, 0, ActionKind::kBackward, 2, 1}});
}

TEST_CASE("simulate: a message may leave before its pass is over") {
  const Schedule schedule = make_schedule(ScheduleKind::k1F1B, {2, 1}, 2);
  StageCost cost{1, 1, 1};
  cost.after_backward = 1;  // the gradients of the weights
  const Timeline t = simulate(schedule, durations(schedule, cost), 0.5);
  CHECK(t.spans[1] == std::vector<Span>{{1.5, 2.5}, {2.5, 4.5}, {4.5, 5.5}, {5.5, 7.5}});
  CHECK(t.spans[0] == std::vector<Span>{{0, 1}, {1, 2}, {4, 6}, {7, 9}});
  CHECK(t.transfers.back().sent == 6.5);
  CHECK(t.transfers.back().arrived == 7);
}

TEST_CASE("simulate: one rank never waits, whatever the transfer") {
  for (const ScheduleKind method : kMethods) CHECK(run(method, 1, 1, 5, 10).idle_fraction == 0);
  const Timeline chunks = run(ScheduleKind::kInterleaved, 1, 3, 5, 10);
  CHECK(chunks.idle_fraction == 0);
  CHECK(chunks.transfers.empty());
}

TEST_CASE("simulate: stages of unlike cost") {
  const Schedule schedule = make_schedule(ScheduleKind::kGPipe, {2, 1}, 2);
  const Timeline t = simulate(schedule, durations(schedule, {{1, 1, 1}, {2, 2, 2}}));
  CHECK(t.spans[1].back() == Span{9, 13});
  CHECK(t.total == 15);
  CHECK_THROWS_WITH(durations(schedule, std::vector<StageCost>(3)),
                    "[topology] costs of 3 stages, the schedule has 2");
}

TEST_CASE("simulate: a schedule that deadlocks names the waiting actions and their inputs") {
  Schedule schedule = make_schedule(ScheduleKind::k1F1B, {2, 1}, 2);
  std::swap(schedule.actions[0][1], schedule.actions[0][2]);  // F0 B0 F1 B1
  std::swap(schedule.actions[1][1], schedule.actions[1][2]);  // F0 F1 B0 B1
  CHECK_THROWS_WITH(
      simulate(schedule, durations(schedule, StageCost{})),
      "[topology] schedule '1f1b' deadlocks: rank 0 at action 1 (B of micro-batch 0 in stage "
      "0) "
      "waits for rank 1 (B of micro-batch 0 in stage 1), rank 1 at action 1 (F of micro-batch 1 in "
      "stage 1) waits for rank 0 (F of micro-batch 1 in stage 0); reorder its actions");
  // A rank may also wait for itself.
  schedule = make_schedule(ScheduleKind::kGPipe, {1, 1}, 1);
  std::swap(schedule.actions[0][0], schedule.actions[0][1]);
  CHECK_THROWS_WITH(
      simulate(schedule, durations(schedule, StageCost{})),
      "[topology] schedule 'gpipe' deadlocks: rank 0 at action 0 (B of micro-batch 0 "
      "in stage 0) waits for rank 0 (F of micro-batch 0 in stage 0); reorder its actions");
}

TEST_CASE("simulate: of many ranks that wait the first sixteen are named") {
  const auto waiting = [](int32_t ranks) {
    Schedule schedule = make_schedule(ScheduleKind::kGPipe, {ranks, 1}, 1);
    for (auto& actions : schedule.actions) std::swap(actions[0], actions[1]);  // B0 F0
    std::string text;
    try {
      simulate(schedule, durations(schedule, StageCost{}));
    } catch (const plait::Error& e) {
      text = e.text();
    }
    return text;
  };
  const std::string all = waiting(16), some = waiting(19);
  CHECK(all.find("rank 15 at action 0 (B of micro-batch 0 in stage 15) waits for") !=
        std::string::npos);
  CHECK(all.find("ranks more") == std::string::npos);
  CHECK(some.find("rank 15 at action 0") != std::string::npos);
  CHECK(some.find("rank 16 at action 0") == std::string::npos);
  CHECK(some.ends_with(", 3 ranks more; reorder its actions"));
}

TEST_CASE("simulate: bad times are refused") {
  const Schedule schedule = make_schedule(ScheduleKind::kGPipe, {2, 1}, 2);
  Durations times = durations(schedule, StageCost{});
  CHECK_THROWS_AS(simulate(schedule, times, -1), plait::Error);
  times[0][0] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH(simulate(schedule, times),
                    "[topology] a duration is negative or not finite, or its message leaves "
                    "after its end; expected 0 or more");
  times[0][0] = Duration(1, 1.5);
  CHECK_THROWS_WITH(simulate(schedule, times),
                    "[topology] a duration is negative or not finite, or its message leaves "
                    "after its end; expected 0 or more");
  times[0].pop_back();
  CHECK_THROWS_WITH(simulate(schedule, times),
                    "[topology] durations do not match the schedule; each action needs one");
}

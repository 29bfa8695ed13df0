// How much a backend is told that it needs.
#include "engine/plan/bytes_under_way.hpp"

#include <doctest/doctest.h>
#include <plait/comm.h>

using namespace plait::plan;
using plait::topology::Axis;
using plait::topology::Grid;

namespace {

constexpr uint64_t kMiB = 1 << 20;

struct Rank {
  Rank() { calls.programs.push_back({"p", {}}); }
  int32_t add(uint32_t kind, uint64_t bytes, uint32_t peer = 0, Axis axis = Axis::kData) {
    Collective c;
    c.axis = axis;
    c.kind = kind;
    c.dtype = PLAIT_F32;
    c.n = bytes / 4;
    c.peer = peer;
    calls.collectives.push_back(c);
    return static_cast<int32_t>(calls.collectives.size()) - 1;
  }
  Rank& start(int32_t c) {
    calls.programs[0].calls.push_back({c, true, -1});
    return *this;
  }
  Rank& wait(int32_t c, int32_t slot = -1) {
    calls.programs[0].calls.push_back({c, false, slot});
    return *this;
  }
  // The program runs on these slots.
  uint64_t bytes(const CallingGroup& group, const std::vector<int32_t>& slots = {0},
                 const Grid& grid = Grid(2, 2, 1)) {
    calls.entry_points = {{kTrainStep, "a step", OpenCalls::kOthers, {}}};
    for (const int32_t slot : slots) calls.entry_points[0].launches.push_back({0, slot, -1, 0});
    return bytes_under_way(calls, grid, group);
  }
  RankCalls calls;
};

const CallingGroup kData{Axis::kData, 0, 0, 2};
const CallingGroup kDeferring{Axis::kData, 0, 0, 2, CallStart::kDeferred};

}  // namespace

TEST_CASE("calls of one size count as often as they are under way at once") {
  Rank apart;
  const int32_t a = apart.add(PLAIT_COMM_ALL_REDUCE, kMiB);
  const int32_t b = apart.add(PLAIT_COMM_ALL_REDUCE, kMiB);
  apart.start(a).wait(a).start(b).wait(b);
  CHECK(apart.bytes(kData) == kMiB);

  Rank together = apart;
  together.calls.programs[0].calls.clear();
  together.start(a).start(b).wait(a).wait(b);
  CHECK(together.bytes(kData) == 2 * kMiB);
  // On one machine, without a pipeline, each starts when it is waited for.
  CHECK(together.bytes(kDeferring, {0}, Grid(1, 2, 1)) == kMiB);
  CHECK(together.bytes(kDeferring) == 2 * kMiB);
  // On several hosts a thread makes them one by one.
  CHECK(together.bytes({Axis::kData, 0, 0, 2, CallStart::kOneByOne}) == kMiB);
  CHECK(together.bytes({Axis::kTensor, 0, 0, 2}) == 0);
  CHECK(together.bytes({Axis::kData, 1, 0, 2}) == 0);  // another channel
}

TEST_CASE("sizes are rounded up, each counts, and what others provide does not") {
  Rank r;
  const int32_t large = r.add(PLAIT_COMM_ALL_GATHER, 15 * kMiB + 4),
                smaller = r.add(PLAIT_COMM_REDUCE_SCATTER, kMiB),
                theirs = r.add(PLAIT_COMM_BROADCAST, 4 * kMiB, 1),
                received = r.add(PLAIT_COMM_RECEIVE, 4 * kMiB);
  for (const int32_t c : {large, smaller, theirs, received}) r.start(c).wait(c);
  CHECK(r.bytes({Axis::kData, 0, 0, 4}) == 16 * kMiB + 3 * kMiB);
  CHECK(r.bytes({Axis::kData, 0, 1, 4}) == 16 * kMiB + 3 * kMiB + 4 * kMiB);
}

TEST_CASE("small calls count all, and messages stay under way from one launch to the next") {
  Rank small;
  for (int i = 0; i < 3; ++i) {
    const int32_t c = small.add(PLAIT_COMM_ALL_REDUCE, kSmallCall);
    small.start(c).wait(c);
  }
  CHECK(small.bytes(kData) == 3 * kSmallCall);

  Rank sends;
  const int32_t message = sends.add(PLAIT_COMM_SEND, kMiB);
  sends.wait(message).start(message);  // waits for the send before, of the same slot
  CHECK(sends.bytes(kData) == kMiB);
  CHECK(sends.bytes(kData, {0, 1, 2, 0}) == 3 * kMiB);
}

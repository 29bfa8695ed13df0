// The symbolic execution of all ranks' calls: what matches and finishes, and every kind of fault.
#include "engine/plan/verify_job.hpp"

#include <doctest/doctest.h>
#include <plait/comm.h>

#include "engine/base/error.hpp"

namespace {

using namespace plait;
using namespace plait::plan;
using topology::Axis;
using topology::Grid;

// One rank that a test writes by hand: a program "p" that runs once in a step.
class Writer {
 public:
  Writer() {
    calls.programs.push_back({"p", {}});
    calls.entry_points.push_back({kTrainStep, "a step", OpenCalls::kOthers, {{0, 0, -1, 0}}});
  }
  int32_t add(const std::string& name, Axis axis, uint32_t kind, uint64_t n = 8,
              uint32_t peer = 0) {
    Collective c;
    c.name = name;
    c.axis = axis;
    c.kind = kind;
    c.dtype = PLAIT_F32;
    c.n = n;
    c.peer = peer;
    calls.collectives.push_back(c);
    return static_cast<int32_t>(calls.collectives.size()) - 1;
  }
  Writer& start(int32_t c, size_t program = 0) { return call(c, true, -1, program); }
  Writer& wait(int32_t c, size_t program = 0, int32_t slot = -1) {
    return call(c, false, slot, program);
  }
  Writer& run(int32_t c) { return start(c).wait(c); }
  // Entry points with these programs.
  void batch(int32_t program) {
    calls.entry_points.push_back(
        {kEvaluate, "a batch of an evaluation", OpenCalls::kMessages, {{program, 0, -1, 0}}});
  }
  void prediction(int32_t batch, int32_t program) {
    calls.entry_points.push_back({kPredict,
                                  "a prediction",
                                  OpenCalls::kMessages,
                                  {{batch, 0, -1, 0}, {program, 0, -1, -1}}});
  }
  void end(int32_t program) {
    calls.entry_points.push_back(
        {kReduceMetrics, "the end of an evaluation", OpenCalls::kNone, {{program, 0, -1, -1}}});
  }
  Collective& last() { return calls.collectives.back(); }

  RankCalls calls;

 private:
  Writer& call(int32_t c, bool starts, int32_t slot, size_t program) {
    calls.programs[program].calls.push_back({c, starts, slot});
    return *this;
  }
};

JobVerdict verdict_of(const Grid& grid, const std::vector<Writer>& ranks) {
  std::vector<const RankCalls*> calls;
  for (const Writer& w : ranks) calls.push_back(&w.calls);
  return verify_job(grid, calls);
}

void check_fault(const Grid& grid, const std::vector<Writer>& ranks,
                 const std::vector<std::string>& words) {
  const std::string fault = verdict_of(grid, ranks).fault;
  INFO(fault);
  REQUIRE(!fault.empty());
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(fault.find(word) != std::string::npos);
  }
}

Writer sums(std::vector<std::pair<std::string, uint64_t>> all, Axis axis = Axis::kTensor) {
  Writer w;
  for (const auto& [name, n] : all) w.run(w.add(name, axis, PLAIT_COMM_ALL_REDUCE, n));
  return w;
}

const Grid kTwo(1, 1, 2), kStages(2, 1, 1);

}  // namespace

TEST_CASE("verify_job: equal calls match, and a call of a group counts once") {
  const Writer w = sums({{"a", 8}, {"b", 4}});
  const JobVerdict verdict = verdict_of(kTwo, {w, w});
  CHECK(verdict.fault == "");
  CHECK(verdict.collectives == 2);
  CHECK(verdict.messages == 0);
  CHECK(verdict_of(Grid(2, 2, 2), {w, w, w, w, w, w, w, w}).collectives == 8);
  CHECK(verdict_of(Grid(1, 1, 1), {Writer()}).fault == "");
  CHECK_THROWS_AS(verdict_of(kTwo, {w}), Error);
}

TEST_CASE("verify_job: a wrong size names both ranks, both calls and their programs") {
  check_fault(kTwo, {sums({{"a", 8}, {"b", 4}}), sums({{"a", 8}, {"b", 5}})},
              {"call 2 of group tensor.0", "all_reduce of 4 f32 'b' on rank",
               "all_reduce of 5 f32 'b' on rank", "rank 0 (pipeline 0, data 0, tensor 0)",
               "rank 1 (pipeline 0, data 0, tensor 1)", "program 'p' of a step"});
}

TEST_CASE("verify_job: every property of a collective must be equal") {
  for (const auto& change :
       std::vector<void (*)(Collective&)>{[](Collective& c) { c.dtype = PLAIT_F64; },
                                          [](Collective& c) { c.reduction = PLAIT_COMM_MAX; },
                                          [](Collective& c) { c.kind = PLAIT_COMM_ALL_GATHER; },
                                          [](Collective& c) { c.name = "other"; }}) {
    Writer w = sums({{"a", 8}});
    change(w.last());
    check_fault(kTwo, {sums({{"a", 8}}), w}, {"call 1 of group tensor.0"});
  }
  Writer a, b;
  a.run(a.add("v", Axis::kTensor, PLAIT_COMM_BROADCAST, 8, 0));
  b.run(b.add("v", Axis::kTensor, PLAIT_COMM_BROADCAST, 8, 1));
  check_fault(kTwo, {a, b}, {"'v' from rank 0", "'v' from rank 1"});
  b.last().peer = 2;
  check_fault(kTwo, {a, b}, {"member 2 of group tensor.0, which has 2 members"});
}

TEST_CASE("verify_job: calls in another order, where each size fits") {
  check_fault(kTwo, {sums({{"a", 8}, {"b", 8}}), sums({{"b", 8}, {"a", 8}})},
              {"call 1 of group tensor.0", "'a' on rank", "'b' on rank"});
}

TEST_CASE("verify_job: a call that one rank lacks") {
  // Behind the last step nothing comes that could be taken for it.
  Writer most = sums({{"a", 8}}), all = most;
  for (Writer* w : {&most, &all}) w->calls.programs.push_back({"last", {}});
  const int32_t more = all.add("b", Axis::kTensor, PLAIT_COMM_ALL_REDUCE);
  all.start(more, 1).wait(more, 1);
  for (Writer* w : {&most, &all}) w->end(1);
  check_fault(kTwo, {most, all}, {"call ", "'a' on rank 0", "'b' on rank 1", "program 'last'"});
  // A rank that makes no call at all does not even open the group.
  check_fault(kTwo, {all, Writer()},
              {"rank 0 (pipeline 0, data 0, tensor 0) opens group tensor.0 for all_reduce",
               "rank 1 (pipeline 0, data 0, tensor 1) has no call in this group"});
  // It knows the call, and never makes it.
  Writer silent;
  silent.add("a", Axis::kTensor, PLAIT_COMM_ALL_REDUCE);
  check_fault(
      kTwo, {sums({{"a", 8}}), silent},
      {"rank 0 (pipeline 0, data 0, tensor 0) waits in program 'p' of a step for the end of "
       "all_reduce of 8 f32 'a', which rank 1 (pipeline 0, data 0, tensor 1) never starts"});
}

namespace {

struct Ends {
  Writer a, b;  // pipeline ranks 0 and 1
  int32_t there, from_a, back, from_b;
  Ends() {
    there = a.add("values", Axis::kPipeline, PLAIT_COMM_SEND, 8, 1);
    from_a = b.add("values", Axis::kPipeline, PLAIT_COMM_RECEIVE, 8, 0);
    back = b.add("gradients", Axis::kPipeline, PLAIT_COMM_SEND, 8, 0);
    from_b = a.add("gradients", Axis::kPipeline, PLAIT_COMM_RECEIVE, 8, 1);
  }
};

}  // namespace

TEST_CASE("verify_job: messages are matched by order, and counted") {
  Ends e;
  e.a.run(e.there).run(e.from_b);
  e.b.run(e.from_a).run(e.back);
  const JobVerdict verdict = verdict_of(kStages, {e.a, e.b});
  CHECK(verdict.fault == "");
  CHECK(verdict.messages == 2);
  CHECK(verdict.collectives == 0);
  SUBCASE("of another size") {
    e.b.calls.collectives[static_cast<size_t>(e.from_a)].n = 9;
    check_fault(kStages, {e.a, e.b},
                {"message 1 of group pipeline.0", "send of 8 f32 'values' to rank 1 on rank 0",
                 "receive of 9 f32 'values' from rank 0 on rank 1"});
  }
  SUBCASE("two of one size that are taken for each other") {
    const int32_t more = e.a.add("more", Axis::kPipeline, PLAIT_COMM_SEND, 8, 1),
                  taken = e.b.add("more", Axis::kPipeline, PLAIT_COMM_RECEIVE, 8, 0);
    Writer a = e.a, b = e.b;
    a.calls.programs[0].calls.clear();
    b.calls.programs[0].calls.clear();
    a.run(e.there).run(more);
    b.run(taken).run(e.from_a);
    check_fault(kStages, {a, b}, {"message 1", "'values' to rank 1", "'more' from rank 0"});
  }
}

TEST_CASE("verify_job: a message without its other end") {
  SUBCASE("a receive that nothing is sent to") {
    Ends e;
    e.b.run(e.from_a);
    check_fault(kStages, {e.a, e.b},
                {"rank 1 (pipeline 1, data 0, tensor 0) waits in program 'p' of a step for the end "
                 "of receive of 8 f32 'values' from rank 0, which rank 0 (pipeline 0, data 0, "
                 "tensor 0) never starts"});
  }
  SUBCASE("a send that nobody takes, even if nobody waits for it") {
    Ends e;
    e.a.run(e.there);
    check_fault(kStages, {e.a, e.b}, {"send of 8 f32 'values' to rank 1", "never starts"});
    Ends sent;
    sent.a.batch(1);
    sent.a.calls.programs.push_back({"evaluate", {}});
    sent.a.start(sent.there, 1);
    sent.a.calls.programs.push_back({"end", {}});
    sent.a.wait(sent.there, 2);
    sent.a.end(2);
    check_fault(kStages, {sent.a, sent.b}, {"'values'"});
  }
}

TEST_CASE("verify_job: ranks that wait for each other in a circle") {
  SUBCASE("both send first, which a backend without buffers cannot do") {
    Ends e;
    e.a.run(e.there).run(e.from_b);
    e.b.run(e.back).run(e.from_a);
    check_fault(kStages, {e.a, e.b},
                {"these ranks wait for each other", "rank 0 (pipeline 0, data 0, tensor 0) waits",
                 "'values' to rank 1, which rank 1 has not started",
                 "'gradients' to rank 0, which rank 0 has not started"});
  }
  SUBCASE("both start first and wait then, which is well") {
    Ends e;
    e.a.start(e.there).start(e.from_b).wait(e.there).wait(e.from_b);
    e.b.start(e.back).start(e.from_a).wait(e.back).wait(e.from_a);
    CHECK(verdict_of(kStages, {e.a, e.b}).fault == "");
  }
  SUBCASE("three ranks; a fourth that waits for one of them is not named") {
    std::vector<Writer> ranks(4);
    for (uint32_t r = 0; r < 3; ++r) {
      const uint32_t from = (r + 2) % 3, to = (r + 1) % 3;
      Writer& w = ranks[r];
      const auto name = [](uint32_t a, uint32_t b) {
        return std::to_string(a) + " to " + std::to_string(b);
      };
      w.run(w.add(name(from, r), Axis::kPipeline, PLAIT_COMM_RECEIVE, 8, from));
      w.run(w.add(name(r, to), Axis::kPipeline, PLAIT_COMM_SEND, 8, to));
    }
    ranks[0].run(ranks[0].add("x", Axis::kPipeline, PLAIT_COMM_SEND, 8, 3));
    ranks[3].run(ranks[3].add("x", Axis::kPipeline, PLAIT_COMM_RECEIVE, 8, 0));
    const std::string fault = verdict_of(Grid(4, 1, 1), ranks).fault;
    for (const char* waits : {"rank 0 (pipeline 0", "rank 1 (pipeline 1", "rank 2 (pipeline 2"})
      CHECK_MESSAGE(fault.find(waits) != std::string::npos, fault);
    CHECK(fault.find("rank 3") == std::string::npos);
  }
  SUBCASE("collectives of two axes, taken in different orders") {
    // Rows agree inside each tensor group and each data group; only the order between them turns.
    std::vector<Writer> ranks(4);
    for (size_t r = 0; r < 4; ++r) {
      Writer& w = ranks[r];
      const int32_t t = w.add("t", Axis::kTensor, PLAIT_COMM_ALL_REDUCE),
                    d = w.add("d", Axis::kData, PLAIT_COMM_ALL_REDUCE);
      const bool tensor_first = r == 0 || r == 3;
      w.run(tensor_first ? t : d).run(tensor_first ? d : t);
    }
    check_fault(Grid(1, 2, 2), ranks, {"these ranks wait for each other", "'t'", "'d'"});
    for (Writer& w : ranks) {
      w.calls.programs[0].calls.clear();
      const bool tensor_first = &w == &ranks[0] || &w == &ranks[3];
      w.start(tensor_first ? 0 : 1).start(tensor_first ? 1 : 0).wait(0).wait(1);
    }
    CHECK(verdict_of(Grid(1, 2, 2), ranks).fault == "");
  }
}

TEST_CASE("verify_job: a call is waited for before it starts again, and at the end of a step") {
  Writer twice;
  const int32_t c = twice.add("a", Axis::kTensor, PLAIT_COMM_ALL_REDUCE);
  twice.start(c).start(c).wait(c);
  check_fault(kTwo, {twice, twice},
              {"rank 0 starts all_reduce 'a' in program 'p' of a step, but has not waited for its "
               "last start"});
  Writer never;
  never.start(never.add("a", Axis::kTensor, PLAIT_COMM_ALL_REDUCE));
  check_fault(kTwo, {never, never}, {"starts all_reduce 'a'", "but never waits for its end"});
  // Each slot has a call of its own; what was not started is waited for in vain, and at once.
  Ends e;
  for (Writer* w : {&e.a, &e.b}) {
    w->calls.entry_points[0].launches = {{0, 0, -1, 0}, {0, 1, -1, 1}, {1, 0, -1, 2}};
    w->calls.programs.push_back({"update", {}});
    for (Collective& each : w->calls.collectives) each.slotted = true;
  }
  e.a.wait(e.there).start(e.there).wait(e.there, 1, 0).wait(e.there, 1, 1);
  e.b.run(e.from_a);
  CHECK(verdict_of(kStages, {e.a, e.b}).fault == "");
  CHECK(verdict_of(kStages, {e.a, e.b}).messages == 2);
  e.a.calls.programs[1].calls.pop_back();
  check_fault(kStages, {e.a, e.b}, {"never waits for its end", "micro-batch 1"});
}

TEST_CASE("verify_job: large collectives may start when they are waited for") {
  const auto writer = [](uint64_t n, bool first) {
    Writer w;
    const int32_t a = w.add("a", Axis::kData, PLAIT_COMM_ALL_REDUCE, n),
                  b = w.add("b", Axis::kData, PLAIT_COMM_ALL_REDUCE, n);
    w.start(a).start(b).wait(first ? a : b).wait(first ? b : a);
    return w;
  };
  const Grid grid(1, 2, 1);
  CHECK(verdict_of(grid, {writer(8, true), writer(8, false)}).fault == "");
  CHECK(verdict_of(grid, {writer(1 << 20, true), writer(1 << 20, true)}).fault == "");
  check_fault(grid, {writer(1 << 20, true), writer(1 << 20, false)}, {"call 1 of group data.0"});
}

TEST_CASE("verify_job: all ranks open the same groups and share the same memory") {
  Ends e;
  e.a.run(e.there);
  e.b.run(e.from_a);
  CHECK(verdict_of(kStages, {e.a, e.b}).fault == "");
  e.b.calls.collectives[static_cast<size_t>(e.back)].channel = 1;
  check_fault(kStages, {e.a, e.b}, {"opens group pipeline.0.back", "has no call in this group"});
  Writer a = sums({{"a", 8}}), b = a;
  a.calls.shared.push_back({"gradients", Axis::kTensor, 64});
  b.calls.shared.push_back({"gradients", Axis::kTensor, 128});
  check_fault(kTwo, {a, b}, {"shared memory for gradients", "opening a session"});
  b.calls.shared.clear();
  check_fault(kTwo, {a, b}, {"shared memory for gradients", "'a'"});
}

TEST_CASE("verify_job: messages of an evaluation are under way until the next batch or its end") {
  Ends e;
  for (Writer* w : {&e.a, &e.b}) {
    w->calls.programs.push_back({"evaluate", {}});
    w->batch(1);
    w->calls.programs.push_back({"reduce_metrics", {}});
    w->end(2);
    w->calls.programs.push_back({"broadcast_outputs", {}});
    w->prediction(1, 3);
  }
  e.a.wait(e.there, 1).start(e.there, 1).wait(e.there, 2);
  e.b.start(e.from_a, 1).wait(e.from_a, 1);
  CHECK(verdict_of(kStages, {e.a, e.b}).fault == "");
  SUBCASE("a batch that does not wait for the one before") {
    e.a.calls.programs[1].calls.erase(e.a.calls.programs[1].calls.begin());
    check_fault(kStages, {e.a, e.b},
                {"has not waited for its last start", "batch of an evaluation"});
  }
  SUBCASE("an end that waits for nothing") {
    e.a.calls.programs[2].calls.clear();
    check_fault(kStages, {e.a, e.b}, {"but never waits for its end"});
  }
}

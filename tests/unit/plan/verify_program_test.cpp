// Faults planted in compiled programs, and in the order of launches, are found.
#include "engine/plan/verify_program.hpp"

#include <plait/comm.h>

#include "engine/base/error.hpp"
#include "engine/plan/plan_draft.hpp"
#include "engine/program/op_def.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::plan;

namespace {

struct Fixture : program::TextFixture {
  PlanDraft plan;
  plait_kernel_item kernel{};

  Fixture() { kernel.name = "any"; }

  // A program whose ops have a call each; transient values lie one behind the other, 64 bytes
  // apart.
  int32_t add(const std::string& lines) {
    read(lines);
    Program p;
    p.name = "p";
    p.graph = std::make_unique<program::Graph>(g);
    for (size_t i = 0; i < g.ops().size(); ++i) {
      const program::Op& op = g.ops()[i];
      if (op.def->is_view) continue;
      KernelCall c;
      c.op = static_cast<int32_t>(i);
      if (op.def->collective != program::CollectiveOp::kNone)
        c.collective = static_cast<int32_t>(op.attrs.integer("id", -1));
      else
        c.kernel = &kernel;
      for (const auto* list : {&op.in, &op.out})
        for (program::ValueId v : *list) {
          const program::ValueId storage = g.storage_of(v);
          BufferRef at = g.value(storage).buffer;
          if (g.value(storage).role == program::Role::kTransient) at = {kTransient, 64 * storage};
          c.operands.push_back({at.segment, at.offset + g.storage_offset(v)});
        }
      p.calls.push_back(c);
    }
    p.transient_bytes = 64 * g.n_values();
    return plan.add(std::move(p));
  }
  Program& last() { return plan.programs.back(); }
  void list(uint32_t kind, uint64_t n, bool slotted = false) {
    Collective e;
    e.kind = kind;
    e.dtype = PLAIT_F32;
    e.n = n;
    e.slotted = slotted;
    plan.collectives.push_back(e);
  }
  template <class Check>
  static std::string fault(Check&& check) {
    try {
      check();
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_INTERNAL);
      const std::string& t = e.text();
      return t.substr(0, t.rfind("; this is a fault"));
    }
    return "";
  }
  std::string program_fault() {
    return fault([&] { verify_program(plan, last()); });
  }
  std::string launch_fault(std::vector<Launch> launches) {
    plan.entry_points = {{"any", "a call", {}, {}, std::move(launches)}};
    return fault([&] { verify_launches(plan); });
  }
};

const char* kOps = R"(
  %1 f32 (8) at 0:0 = persistent "x"
  %2 f32 (8) = map(%1) [exp(x0)]
  %3 f32 (8) = map(%2) [-x0]
  %4 f32 (2, 4) = reshape(%3) {shape: [2, 4]}
  %5 f32 (8) at 1:0 = map(%2) [abs(x0)]
  %6 f32 (2, 4) at 1:64 = map(%4) [sqrt(x0)]
)";
const std::string kAfter = "[verify] after assign_offsets, program 'p': ";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "calls that do not belong to their ops") {
  add(kOps);
  CHECK(program_fault() == "");
  last().calls.pop_back();
  CHECK(program_fault() ==
        kAfter + "op 4, %6 f32 (2, 4) at 1:64 = map(%4) [sqrt(x0)]: has no call");
  add(kOps);
  last().calls.push_back(last().calls[0]);
  CHECK(program_fault() == kAfter + "has 1 calls more than ops");
  add(kOps);
  last().calls[0].kernel = nullptr;
  CHECK(program_fault() == kAfter +
                               "op 0, %2 f32 (8) = map(%1) [exp(x0)]: has neither a kernel "
                               "nor a collective of its own");
  add(kOps);
  last().calls[0].operands.pop_back();
  CHECK(program_fault() ==
        kAfter + "op 0, %2 f32 (8) = map(%1) [exp(x0)]: has 2 operands, its call has 1");
}

TEST_CASE_FIXTURE(Fixture, "an op has a call if one of its results has elements") {
  const std::string lines = R"(
    %1 f32 (4, 0) at 0:0 = persistent "x"
    %2 i32 (4, 2) at 0:0 = persistent "index"
  )";
  // Rows without channels still have places.
  add(lines + "%3 f32 (8, 0), %4 i32 (4, 2), %5 i32 (4) = group_rows(%1, %2) {groups: 3}");
  CHECK(program_fault() == "");
  last().calls.clear();
  CHECK(program_fault().ends_with("group_rows(%1, %2) {groups: 3}: has no call"));
  add(lines + "%3 f32 (4, 0) = map(%1) [exp(x0)]");
  CHECK(program_fault() == kAfter + "has 1 calls more than ops");
  last().calls.clear();
  CHECK(program_fault() == "");
}

TEST_CASE_FIXTURE(Fixture, "values that overlap in the arena, or lie beside it") {
  add(kOps);
  // %3 is made while %2 is still to be read.
  for (size_t call : {1u, 3u}) last().calls[call].operands[call == 1] = {kTransient, 128};
  CHECK(program_fault() ==
        kAfter +
            "op 1, %3 f32 (8) = map(%2) [-x0]: %3 takes bytes 128 to 160 of the arena, where "
            "%2 lies until op 3");
  add(kOps);
  last().calls[2].workspace_bytes = 100;
  last().calls[2].workspace = 128;
  CHECK(program_fault().find(": its workspace takes bytes 128 to 228 of the arena, where %2 lies "
                             "until op 3") != std::string::npos);
  add(kOps);
  last().calls[1].operands[0].offset += 64;
  CHECK(program_fault().ends_with("%2 is at two places of the arena"));
  add(kOps);
  last().transient_bytes = 150;
  CHECK(program_fault().ends_with("%2 takes bytes 128 to 160 of an arena of 150"));
  add(kOps);
  for (size_t call : {0u, 1u, 2u}) last().calls[call].operands[call == 0].offset += 4;
  CHECK(program_fault().ends_with("%2 lies at byte 132 of the arena, which is no multiple of 64"));
  add(kOps);
  last().calls[0].operands[0].offset = 8;
  CHECK(program_fault().ends_with("%1 is not at the place that it has in the graph"));
  add(kOps);
  last().calls[0].operands[1].segment = 3;
  CHECK(program_fault().ends_with("%2 is transient, but does not lie in the arena"));
}

TEST_CASE_FIXTURE(Fixture, "values that follow each other may share bytes") {
  add(R"(
    %1 f32 (8) at 0:0 = persistent "x"
    %2 f32 (8) = map(%1) [exp(x0)]
    %3 f32 (8) at 1:0 = map(%2) [-x0]
    %4 f32 (8) = map(%1) [-x0]
    %5 f32 (8) at 1:64 = map(%4) [-x0]
  )");
  last().calls[2].operands[1] = last().calls[3].operands[0] = {kTransient, 128};
  CHECK(program_fault() == "");
}

TEST_CASE_FIXTURE(Fixture, "collectives that are not what the plan lists") {
  const char* lines = R"(
    %1 f32 (8) at 0:0 = persistent "x"
    %2 f32 (8) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
  )";
  add(lines);
  const std::string op =
      kAfter + "op 0, %2 f32 (8) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}: ";
  CHECK(program_fault() == op + "is collective 0, which the plan does not list");
  list(PLAIT_COMM_ALL_REDUCE, 4);
  CHECK(program_fault() == op + "is listed with 4 elements");
  plan.collectives[0].n = 8;
  CHECK(program_fault() == "");
  plan.collectives[0].kind = PLAIT_COMM_BROADCAST;
  CHECK(program_fault() == op + "is listed as broadcast of f32");
}

TEST_CASE_FIXTURE(Fixture, "messages to one peer start in the order of the plan's list") {
  for (int i = 0; i < 2; ++i) list(PLAIT_COMM_SEND, 8);
  add(R"(
    %1 f32 (8) at 0:0 = persistent "x"
    %2 f32 (8) at 0:64 = persistent "y"
    %3 f32 (8) in %1 = collective_start(%1) {kind: 7, ranks: 2, id: 1, ordered: true}
    %4 f32 (8) in %2 = collective_start(%2) {kind: 7, ranks: 2, id: 0, ordered: true}
  )");
  CHECK(program_fault().ends_with("starts behind collective 1, which the plan lists later"));
  plan.collectives[1].peer = 1;
  CHECK(program_fault() == "");
}

TEST_CASE_FIXTURE(Fixture, "what a step starts it ends, and nothing else") {
  list(PLAIT_COMM_ALL_REDUCE, 8);
  const int32_t start = add(R"(
    %1 f32 (8) at 0:0 = persistent "x"
    %2 f32 (8) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
  )");
  const int32_t done = add(R"(
    %1 f32 (8) at 0:0 = persistent "x"
    %2 f32 (8) in %1 = collective_done(%1) {id: 0}
  )");
  CHECK(launch_fault({{start, 0, -1, 0}, {done, 0, -1, 1}}) == "");
  const std::string opens = "[verify] after launching ";
  CHECK(launch_fault({{start, 0, -1, 0}}).find("starts a collective whose end nobody waits for") !=
        std::string::npos);
  const std::string twice = launch_fault({{start, 0, -1, 0}, {start, 0, -1, 1}, {done, 0, -1, 2}});
  CHECK(twice.starts_with(opens + "a call, program 'p': op 0, "));
  CHECK(twice.ends_with("starts while it is still under way"));
  CHECK(launch_fault({{done, 0, -1, 0}})
            .ends_with("waits for a collective that was not started before"));
}

TEST_CASE_FIXTURE(Fixture, "a launch is on a slot of its program, with a feed of its entry point") {
  const int32_t p = add(kOps);
  CHECK(launch_fault({{p, 0, -1, 0}}) == "");
  CHECK(launch_fault({{p, 1, -1, 0}}).ends_with("is launched on slot 1, but has slots 0 to 0"));
  CHECK(launch_fault({{p, 0, 0, 0}}).ends_with("is launched with feed 0 of 0"));
  last().first_slot = 1;
  CHECK(launch_fault({{p, 1, -1, 0}}) == "");
}

TEST_CASE_FIXTURE(Fixture, "each slot has messages of its own, which the next launch waits for") {
  list(PLAIT_COMM_SEND, 8, true);
  const int32_t send = add(R"(
    %1 f32 (8) at 0:0 = persistent "sent before"
    %2 f32 (8) in %1 = collective_done(%1) {id: 0}
    %3 f32 (8) at 0:0 = map() [1.0]
    %4 f32 (8) in %3 = collective_start(%3) {kind: 7, ranks: 2, id: 0}
  )");
  last().slots = 2;
  const std::vector<Launch> three = {{send, 0, -1, 0}, {send, 1, -1, 1}, {send, 0, -1, 2}};
  CHECK(launch_fault(three) == "");
  plan.programs.back().calls.erase(plan.programs.back().calls.begin());
  CHECK(launch_fault(three).ends_with("starts while it is still under way"));
  // The message of the last launch, when the entry point runs again.
  const std::string again = launch_fault({{send, 0, -1, 0}});
  CHECK(again.starts_with("[verify] after launching a call again, program 'p'"));
  CHECK(again.ends_with("starts while it is still under way"));
}

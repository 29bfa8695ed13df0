// Each kind of fault, planted in a small program, is found.
#include "engine/program/verify.hpp"

#include <plait/comm.h>

#include <cstdlib>
#include <string>

#include "engine/base/error.hpp"
#include "engine/program/passes.hpp"
#include "engine/program/verify_memory.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  std::string fault() const {
    const auto found = find_fault(g);
    return found ? "op " + std::to_string(found->op) + " " + found->what : "";
  }
  std::string fault_in(const std::string& lines) {
    read(lines);
    return fault();
  }
  // A field that rewrites keep; changed here behind their back.
  Op& op(size_t i) { return const_cast<Op&>(g.ops()[i]); }
};

struct Case {
  const char *lines, *fault;
};

constexpr const char* kChain = R"(
  %1 f32 (4) at 0:0 = persistent "x"
  %2 f32 (4) = map(%1) [exp(x0)]
  %3 f32 (4) = map(%2) [-x0]
  %4 f32 (4) at 1:0 = map(%2, %3) [x0 + x1]
)";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "producers and readers that disagree with the ops") {
  CHECK(fault_in(kChain).empty());
  g.value(3).producer = 2;
  CHECK(fault() == "op 1 %3 is noted as made by op 2, but op 1 makes it");
  read(kChain);
  g.value(1).producer = 0;
  CHECK(fault() == "op -1 %1 is noted as made by op 0, but op -1 makes it");
  read(kChain);
  op(1).in = {1};
  CHECK(fault() == "op 1 is missing in the list of readers of %1");
  read(kChain);
  op(2).in = {3, 3};
  CHECK(fault() == "op 2 is in the list of readers of %2, but does not read it");
  read(kChain);
  Op again = g.ops()[1];
  again.out = {2};
  g.replace(1, again);
  CHECK(fault() == "op 1 makes %2, which op 0 made: %2 f32 (4) = map(%1) [exp(x0)]");
  read(kChain);
  op(1).out = {9};
  CHECK(fault() == "op 1 names %9, which is no value");
  read(kChain);
  op(1).out.clear();
  CHECK(fault() == "op 1 makes nothing");
  read(kChain);
  g.value(3).alias_of = 9;
  CHECK(fault() == "op 1 %3 lies in %9, which is no value");
  CHECK(fault_in("removed") == "op 0 was taken out, but is still in the list");
}

TEST_CASE_FIXTURE(Fixture, "order, shapes and types") {
  const Case kCases[] = {
      {R"(%1 f32 (4) at 0:0 = persistent "x"
          %3 f32 (4) = map(%2) [-x0]
          %2 f32 (4) = map(%1) [exp(x0)])",
       "op 0 reads %2, which a later op makes"},
      {"%1 f32 (4) = map(%1) [-x0]", "op 0 reads %1, which it makes itself"},
      {R"(%1 f32 (4) at 0:0 = persistent "x"
          %4 f32 (2) = map(%3) [-x0]
          %2 f32 (4) = map(%1) [-x0]
          %3 f32 (2) in %2+8 = view)",
       "op 0 reads %3 in the memory of %2, which a later op makes"},
      {R"(%1 f32 (8, 4) at 0:0 = persistent "x"
          %2 f32 (4, 2) at 0:128 = persistent "w"
          %3 f32 (8, 3) = matmul(%1, %2))",
       "op 0 %3 is f32 (8, 3), its definition makes f32 (8, 2)"},
      {R"(%1 f32 (8, 4) at 0:0 = persistent "x"
          %2 f32 (4, 2) at 0:128 = persistent "w"
          %3 f64 (8, 2) = matmul(%1, %2))",
       "op 0 %3 is f64 (8, 2), its definition makes f32 (8, 2)"},
      {R"(%1 f32 (8, 4) at 0:0 = persistent "x"
          %2 f32 (5, 2) at 0:128 = persistent "w"
          %3 f32 (8, 2) = matmul(%1, %2))",
       "op 0 inner extents differ: 4 in f32 (8, 4), 5 in f32 (5, 2)"},
      {R"(%1 f32 (8, 4) at 0:0 = persistent "x"
          %2 f32 (8), %3 f32 (8) = reduce(%1) {axes: [1], keep: false})",
       "op 0 has 2 results, its definition makes 1"},
      {R"(%1 f32 (3) at 0:0 = persistent "x"
          %2 f32 (4) = map(%1) [-x0])",
       "op 0 input f32 (3) does not broadcast to f32 (4)"},
      {"%1 f32 (4), %2 f32 (3) = map() [0.0, 1.0]", "op 0 outputs differ: f32 (4) and f32 (3)"},
      {R"(%1 f32 (4) at 0:0 = persistent "x"
          %2 f32 (2, 3) = reshape(%1) {shape: [2, 2]})",
       "op 0 %2 takes bytes 0 to 24 of %1, which has 16"},
      {R"(%2 f32 (4) in %3 = view
          %3 f32 (4) in %2 = view
          %4 f32 (4) = map(%2) [-x0])",
       "op 0 %2 lies in itself"},
      {R"(%1 f32 (4) at 0:0 = persistent "x"
          %2 f32 (4) in %1+8 = map() [0.0])",
       "op 0 %2 takes bytes 8 to 24 of %1, which has 16"},
      {R"(%1 f32 (4) at 0:0 = persistent "x"
          %2 f32 (4) = map(%1) [-x0] in_place [0])",
       "op 0 says in_place 0 of %2, which does not lie in that operand"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.lines);
    CHECK(fault_in(c.lines) == c.fault);
  }
  read(kChain);
  op(2).map.outputs = {7};
  CHECK(fault() == "op 2 output 0 names no register");
  read(kChain);
  op(2).map.instrs[0].a = 5;
  CHECK(fault() == "op 2 instruction 0 reads a later register");
}

TEST_CASE_FIXTURE(Fixture, "memory that is not what its reader expects") {
  const Case kCases[] = {
      {R"(%1 f32 (4) at 0:0 = persistent "p"
          %2 f32 (4) in %1 = map(%1) [x0 * 0.5]
          %3 f32 (4) = map(%1) [-x0])",
       "op 1 reads %1, which is overwritten by op 0: %2 f32 (4) in %1 = map(%1) [x0 * 0.5]"},
      {R"(%1 f32 (4) at 0:0 = persistent "p"
          %2 f32 (2) at 0:8 = map() [1.0]
          %3 f32 (2) at 0:12 = map() [2.0]
          %4 f32 (2) = map(%2) [-x0])",
       "op 2 reads %2, which is overwritten by op 1: %3 f32 (2) at 0:12 = map() [2.0]"},
      {R"(%1 f32 (4) at 0:0 = persistent "p"
          %2 f32 (2, 2) = reshape(%1) {shape: [2, 2]}
          %3 f32 (4) in %1 = map() [0.0]
          %4 f32 (2, 2) = map(%2) [-x0])",
       "op 2 reads %2, which is overwritten by op 1: %3 f32 (4) in %1 = map() [0.0]"},
      {"%1 f32 (4) = buffer\n%2 f32 (4) = map(%1) [-x0]",
       "op 0 reads %1, of whose memory byte 0 was not written before"},
      {R"(%1 f32 (4) = buffer
          %2 f32 (2) in %1 = map() [1.0]
          %3 f32 (1) in %1+12 = map() [1.0]
          %4 f32 (4) = map(%1) [-x0])",
       "op 2 reads %1, of whose memory byte 8 was not written before"},
      {R"(%1 f32 (4, 4) at 0:0 = persistent "x"
          %2 f32 (4, 4) in %1 = transpose(%1) {perm: [1, 0]})",
       "op 0 reads %1 while it writes %2 over it"},
      {R"(%1 f32 (4, 4) at 0:0 = persistent "x"
          %2 f32 (4, 4) at 0:0 = transpose(%1) {perm: [1, 0]})",
       "op 0 reads %1 while it writes %2 over it"},
      {R"(%1 f32 (4, 4) at 0:0 = persistent "x"
          %2 f32 (4, 4) in %1 = matmul(%1, %1))",
       "op 0 reads %1 while it writes %2 over it"},
      {R"(%1 f32 (8) at 0:0 = persistent "x"
          %2 f32 (4) in %1+8 = view
          %3 f32 (4) at 0:0 = map(%2) [-x0])",
       "op 0 reads %2 while it writes %3 over it"},
      {"%1 f32 (4) at 0:0, %2 f32 (4) at 0:8 = map() [0.0, 1.0]",
       "op 0 writes %1 and %2 to the same memory"},
      {R"(%1 f32 (1, 4, 1, 2) at 0:0 = persistent "cache"
          %2 f32 (1, 1, 1, 2) at 0:32 = persistent "x"
          %3 i32 (1) at 0:64 = persistent "slot"
          %4 i32 (1, 1) at 0:96 = persistent "at"
          %5 f32 (1, 4, 1, 2) in %1 = cache_write(%1, %2, %3, %4)
          %6 f32 (1, 1, 1, 2) = attention_cached(%2, %5, %1, %3, %4) {scale: 1.0})",
       "op 1 reads %1, which is overwritten by op 0: %5 f32 (1, 4, 1, 2) in %1 = "
       "cache_write(%1, %2, %3, %4)"},
      {R"(%1 f32 (1, 4, 1, 2) at 0:0 = persistent "cache"
          %2 f32 (1, 1, 1, 2) in %1+8 = view
          %3 i32 (1) at 0:64 = persistent "slot"
          %4 i32 (1, 1) at 0:96 = persistent "at"
          %5 f32 (1, 4, 1, 2) in %1 = cache_write(%1, %2, %3, %4))",
       "op 0 reads %2 while it writes %5 over it"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.lines);
    CHECK(fault_in(c.lines) == c.fault);
  }
}

TEST_CASE_FIXTURE(Fixture, "collectives that do not match, and what comes between") {
  const Case kCases[] = {
      {R"(%1 f32 (4) at 0:0 = persistent "g"
          %2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
          %3 f32 (4) in %2 = collective_done(%2) {id: 1})",
       "op 1 waits for collective 1, but what it reads is started as 0"},
      {R"(%1 f32 (4) at 0:0 = persistent "g"
          %4 f32 (4) at 0:64 = persistent "h"
          %2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
          %3 f32 (4) in %4 = collective_start(%4) {kind: 2, ranks: 2, id: 0})",
       "op 1 starts collective 0 for the second time in one program"},
      {R"(%1 f32 (4) at 0:0 = persistent "g"
          %2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
          %3 f32 (4) in %2 = collective_done(%2) {id: 0}
          %4 f32 (4) in %3 = collective_done(%3) {id: 0})",
       "op 2 waits for collective 0 for the second time in one program"},
      {R"(%1 f32 (4) at 0:0 = persistent "g"
          %2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
          %5 f32 (2) at 0:8 = map() [0.0]
          %3 f32 (4) in %2 = collective_done(%2) {id: 0})",
       "op 1 writes %5, the memory of %1, while a collective works on it: "
       "%2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}"},
      {R"(%1 f32 (4) at 0:16 = persistent "g"
          %2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
          %5 f32 (2) in %1+8 = map() [0.0]
          %3 f32 (4) in %2 = collective_done(%2) {id: 0})",
       "op 1 writes %5, the memory of %1, while a collective works on it: "
       "%2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}"},
      {R"(%1 f32 (4) at 0:0 = persistent "g"
          %2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
          %5 f32 (4) = map(%2) [-x0]
          %3 f32 (4) in %2 = collective_done(%2) {id: 0})",
       "op 1 reads %2, the memory of %2, while a collective works on it: "
       "%2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}"},
      {R"(%1 f32 (4) at 0:0 = persistent "g"
          %2 f32 (8) at 1:0 = collective_start(%1) {kind: 4, ranks: 2, id: 0}
          %5 f32 (4) in %1 = map() [0.0])",
       "op 1 writes %5, the memory of %1, while a collective works on it: "
       "%2 f32 (8) at 1:0 = collective_start(%1) {kind: 4, ranks: 2, id: 0}"},
      {R"(%1 f32 (4) = map() [1.0]
          %2 f32 (8) = collective_start(%1) {kind: 4, ranks: 2, id: 0}
          %3 f32 (8) in %2 = collective_done(%2) {id: 0})",
       "op 1 %1 is transient memory of the collective, but the op that waits for its end does not "
       "name it"},
      {R"(%1 f32 (4) = map() [1.0]
          %2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0})",
       "op 1 %1 is transient memory of the collective, but nothing in the program waits for its "
       "end"},
      {R"(%1 f32 (4) = map() [1.0]
          %2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
          %3 f32 (4) in %2 = collective_done(%2) {id: 0}
          %4 f32 (4) = map(%1) [-x0])",
       "op 3 reads %1, which is overwritten by op 2: %3 f32 (4) in %2 = collective_done(%2) {id: "
       "0}"},
      {R"(%1 f32 (3) at 0:0 = persistent "g"
          %2 f32 (1) at 1:0 = collective_start(%1) {kind: 3, ranks: 2, id: 0})",
       "op 0 [] collective_start: the first dimension of f32 (3) cannot be shared by 2 ranks"},
  };
  static_assert(PLAIT_COMM_ALL_REDUCE == 2 && PLAIT_COMM_REDUCE_SCATTER == 3 &&
                PLAIT_COMM_ALL_GATHER == 4 && PLAIT_COMM_SEND == 7);
  for (const Case& c : kCases) {
    CAPTURE(c.lines);
    CHECK(fault_in(c.lines) == c.fault);
  }
}

TEST_CASE_FIXTURE(Fixture, "what looks like a fault and is none") {
  for (const char* lines : {
           // Parts of a gradient are written, and the whole is reduced under another name.
           R"(%1 f32 (4) at 0:0 = persistent "all"
              %2 f32 (2) at 0:0 = map() [1.0]
              %3 f32 (2) at 0:8 = map() [2.0]
              %4 f32 (4) in %1 = collective_start(%1, %2, %3) {kind: 2, ranks: 2, id: 0})",
           // The same in a transient buffer, which is read while its parts are there.
           R"(%1 f32 (4) = buffer
              %2 f32 (2) in %1 = map() [1.0]
              %3 f32 (2) in %1+8 = map() [2.0]
              %4 f32 (2) at 0:0 = collective_start(%1, %2, %3) {kind: 3, ranks: 2, id: 0}
              %5 f32 (2) in %4 = collective_done(%4, %1) {id: 0})",
           // Sending leaves memory as it is; the last message of this slot is waited for first.
           R"(%1 f32 (4) at 0:0 = persistent "sent before"
              %2 f32 (4) in %1 = collective_done(%1) {id: 0}
              %3 f32 (4) at 0:0 = map() [1.0]
              %4 f32 (4) in %3 = collective_start(%3) {kind: 7, ranks: 2, id: 0}
              %5 f32 (4) at 1:0 = map(%3) [-x0])",
           // An update in place, under other names.
           R"(%1 f32 (4) at 0:0 = persistent "p"
              %2 f32 (4) at 1:0 = persistent "g"
              %3 f32 (4) in %1 = map(%1, %2) [x0 - x1] in_place [0]
              %4 f32 (4) at 1:0 = map(%3) [-x0])",
           // A product that adds to what is there.
           R"(%1 f32 (4, 4) at 0:0 = persistent "g"
              %2 f32 (4, 4) at 1:0 = persistent "x"
              %3 f32 (4, 4) in %1 = matmul(%2, %2, %1) {accumulate: true} in_place [2])",
           // Nothing lies at the place that a reader waits for from outside.
           R"(%1 f32 (4) at none = persistent "w"
              %2 f32 (0) = buffer
              %3 f32 (0) = map(%2) [-x0]
              %4 f32 (4) = map(%1) [-x0])",
       }) {
    CAPTURE(lines);
    CHECK(fault_in(lines) == "");
  }
}

TEST_CASE_FIXTURE(Fixture, "a collective ends where it is waited for, and keeps to its memory") {
  // The op that waits names the memory, not what the start made of it.
  read(R"(%1 f32 (4) at 0:0 = persistent "g"
          %2 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
          %3 f32 (4) in %1 = collective_done(%1) {id: 0}
          %4 f32 (4) in %1 = map() [0.0])");
  CHECK_FALSE(find_collective_fault(g));
  // Buffers have the numbers of values, and memory of the plan those of segments.
  read(R"(%2 f32 (4) at 2:0 = persistent "g"
          %3 f32 (4) in %2 = collective_start(%2) {kind: 2, ranks: 2, id: 0}
          %1 f32 (4) = map() [1.0]
          %4 f32 (4) in %3 = collective_done(%3) {id: 0})");
  CHECK_FALSE(find_collective_fault(g));
  // Two weights that have no place yet have none in common.
  read(R"(%1 f32 (4) at none = persistent "g"
          %2 f32 (4) at none = persistent "h"
          %3 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0}
          %4 f32 (4) in %2 = map() [1.0]
          %5 f32 (4) in %3 = collective_done(%3) {id: 0})");
  CHECK_FALSE(find_collective_fault(g));
}

TEST_CASE_FIXTURE(Fixture, "the error names pass, program, op and fault") {
  read(R"(%1 f32 (8, 4) at 0:0 = persistent "x"
          %2 f32 (4) = reduce(%1) {axes: [1], keep: false} @model.norm)");
  try {
    verify(g, "fuse_maps", "update");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.code() == PLAIT_ERR_INTERNAL);
    CHECK(e.text() ==
          "[verify] after fuse_maps, program 'update': op 0, %2 f32 (4) = reduce(%1) {axes: [1], "
          "keep: false} @model.norm: %2 is f32 (4), its definition makes f32 (8); this is a fault "
          "of the engine, please report it with the experiment");
  }
}

TEST_CASE("the checks run where PLAIT_VERIFY is 1") {
  const char* before = std::getenv("PLAIT_VERIFY");
  const std::string restore = before ? before : "";
  ::setenv("PLAIT_VERIFY", "1", 1);
  CHECK(verify_enabled());
  ::setenv("PLAIT_VERIFY", "0", 1);
  CHECK_FALSE(verify_enabled());
  ::unsetenv("PLAIT_VERIFY");
  CHECK_FALSE(verify_enabled());
  if (before) ::setenv("PLAIT_VERIFY", restore.c_str(), 1);
}

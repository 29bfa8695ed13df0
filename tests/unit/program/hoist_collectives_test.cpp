// Where collectives start and end after they were moved.
#include "engine/program/passes.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  void hoists(const std::string& lines, const std::string& after) {
    expect_after([this] { hoist_collectives(g); }, lines, after);
    CHECK_FALSE(find_fault(g));
  }
  void stays(const std::string& lines) { hoists(lines, lines); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a collective starts behind the last op that makes what it reads") {
  hoists(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) at 1:0 = map(%1) [-x0]
    %3 f32 (4) at 1:16 = map(%1) [exp(x0)]
    %4 f32 (4) at 2:0 = map(%1) [abs(x0)]
    %5 f32 (4) in %2 = collective_start(%2) {kind: 2, ranks: 2, id: 0}
  )",
         R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) at 1:0 = map(%1) [-x0]
    %5 f32 (4) in %2 = collective_start(%2) {kind: 2, ranks: 2, id: 0} in_place [0]
    %3 f32 (4) at 1:16 = map(%1) [exp(x0)]
    %4 f32 (4) at 2:0 = map(%1) [abs(x0)]
  )");
}

TEST_CASE_FIXTURE(Fixture, "further operands are waited for, too") {
  hoists(R"(
    %1 f32 (4) at 0:0 = persistent "all"
    %2 f32 (2) at 0:0 = map() [1.0]
    %3 f32 (2) at 0:8 = map() [2.0]
    %4 f32 (4) at 2:0 = map() [3.0]
    %5 f32 (4) in %1 = collective_start(%1, %2, %3) {kind: 2, ranks: 2, id: 0}
  )",
         R"(
    %1 f32 (4) at 0:0 = persistent "all"
    %2 f32 (2) at 0:0 = map() [1.0]
    %3 f32 (2) at 0:8 = map() [2.0]
    %5 f32 (4) in %1 = collective_start(%1, %2, %3) {kind: 2, ranks: 2, id: 0} in_place [0]
    %4 f32 (4) at 2:0 = map() [3.0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "those that wait for one op keep their order") {
  hoists(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 bf16 (4) at 1:0, %3 u8 (8) at 2:0 = split_halves(%1)
    %4 f32 (4) at 3:0 = map(%1) [abs(x0)]
    %5 bf16 (4) in %2 = collective_start(%2) {kind: 5, ranks: 2, id: 0}
    %6 u8 (8) in %3 = collective_start(%3) {kind: 5, ranks: 2, id: 1}
  )",
         R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 bf16 (4) at 1:0, %3 u8 (8) at 2:0 = split_halves(%1)
    %5 bf16 (4) in %2 = collective_start(%2) {kind: 5, ranks: 2, id: 0} in_place [0]
    %6 u8 (8) in %3 = collective_start(%3) {kind: 5, ranks: 2, id: 1} in_place [0]
    %4 f32 (4) at 3:0 = map(%1) [abs(x0)]
  )");
}

TEST_CASE_FIXTURE(Fixture, "with nothing to wait for in the program it stays") {
  stays(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) at 2:0 = map(%1) [exp(x0)]
    %3 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0} in_place [0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "ordered ones keep their order though the second could start first") {
  hoists(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) at 1:0 = map(%1) [-x0]
    %3 f32 (4) at 1:16 = map(%1) [exp(x0)]
    %4 f32 (4) at 2:0 = map(%1) [abs(x0)]
    %5 f32 (4) in %3 = collective_start(%3) {kind: 7, ranks: 2, id: 0, ordered: true}
    %6 f32 (4) in %2 = collective_start(%2) {kind: 7, ranks: 2, id: 1, ordered: true}
  )",
         R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) at 1:0 = map(%1) [-x0]
    %3 f32 (4) at 1:16 = map(%1) [exp(x0)]
    %5 f32 (4) in %3 = collective_start(%3) {kind: 7, ranks: 2, id: 0, ordered: true} in_place [0]
    %6 f32 (4) in %2 = collective_start(%2) {kind: 7, ranks: 2, id: 1, ordered: true} in_place [0]
    %4 f32 (4) at 2:0 = map(%1) [abs(x0)]
  )");
}

TEST_CASE_FIXTURE(Fixture, "an ordered one starts no earlier than what it reads is made") {
  hoists(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) at 1:0 = map(%1) [-x0]
    %3 f32 (4) at 1:16 = map(%1) [exp(x0)]
    %4 f32 (4) at 2:0 = map(%1) [abs(x0)]
    %5 f32 (4) in %2 = collective_start(%2) {kind: 7, ranks: 2, id: 0, ordered: true}
    %6 f32 (4) in %3 = collective_start(%3) {kind: 7, ranks: 2, id: 1, ordered: true}
  )",
         R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) at 1:0 = map(%1) [-x0]
    %5 f32 (4) in %2 = collective_start(%2) {kind: 7, ranks: 2, id: 0, ordered: true} in_place [0]
    %3 f32 (4) at 1:16 = map(%1) [exp(x0)]
    %6 f32 (4) in %3 = collective_start(%3) {kind: 7, ranks: 2, id: 1, ordered: true} in_place [0]
    %4 f32 (4) at 2:0 = map(%1) [abs(x0)]
  )");
}

TEST_CASE_FIXTURE(Fixture, "what was sent is let go when the next collective has started") {
  hoists(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) = map(%1) [-x0]
    %3 f32 (2) = collective_start(%2) {kind: 3, ranks: 2, id: 0}
    %4 f32 (4) = map(%1) [exp(x0)]
    %5 f32 (2) = collective_start(%4) {kind: 3, ranks: 2, id: 1}
    %6 f32 (4) at 2:0 = map(%1) [abs(x0)]
    %7 f32 (2) in %3 = collective_done(%3, %2) {id: 0}
    %8 f32 (2) in %5 = collective_done(%5, %4) {id: 1}
    %9 f32 (2) at 2:16 = map(%7, %8) [x0 + x1]
  )",
         R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) = map(%1) [-x0]
    %3 f32 (2) = collective_start(%2) {kind: 3, ranks: 2, id: 0}
    %4 f32 (4) = map(%1) [exp(x0)]
    %5 f32 (2) = collective_start(%4) {kind: 3, ranks: 2, id: 1}
    %7 f32 (2) in %3 = collective_done(%3, %2) {id: 0} in_place [0]
    %6 f32 (4) at 2:0 = map(%1) [abs(x0)]
    %8 f32 (2) in %5 = collective_done(%5, %4) {id: 1} in_place [0]
    %9 f32 (2) at 2:16 = map(%7, %8) [x0 + x1]
  )");
}

TEST_CASE_FIXTURE(Fixture, "a wait that holds no memory stays where its result is needed") {
  stays(R"(
    %1 f32 (4) at 0:0 = persistent "g"
    %2 f32 (4) at 1:0 = persistent "h"
    %3 f32 (4) in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0} in_place [0]
    %4 f32 (4) in %2 = collective_start(%2) {kind: 2, ranks: 2, id: 1} in_place [0]
    %5 f32 (4) at 2:0 = map() [1.0]
    %6 f32 (4) in %3 = collective_done(%3) {id: 0} in_place [0]
    %7 f32 (4) at 2:16 = map(%6) [-x0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "a wait for what another program started lets one of this one start") {
  hoists(R"(
    %1 f32 (2) at 0:0 = persistent "received"
    %2 f32 (4) at 0:8 = persistent "sent"
    %3 f32 (4) at 0:24 = persistent "x"
    %4 f32 (4) = map(%3) [-x0]
    %5 f32 (2) = collective_start(%4) {kind: 3, ranks: 2, id: 1}
    %6 f32 (4) at 2:0 = map(%3) [abs(x0)]
    %7 f32 (2) in %1 = collective_done(%1, %2) {id: 0}
    %8 f32 (2) in %5 = collective_done(%5, %4) {id: 1}
    %9 f32 (2) at 2:16 = map(%7, %8) [x0 + x1]
  )",
         R"(
    %1 f32 (2) at 0:0 = persistent "received"
    %2 f32 (4) at 0:8 = persistent "sent"
    %3 f32 (4) at 0:24 = persistent "x"
    %4 f32 (4) = map(%3) [-x0]
    %5 f32 (2) = collective_start(%4) {kind: 3, ranks: 2, id: 1}
    %7 f32 (2) in %1 = collective_done(%1, %2) {id: 0} in_place [0]
    %6 f32 (4) at 2:0 = map(%3) [abs(x0)]
    %8 f32 (2) in %5 = collective_done(%5, %4) {id: 1} in_place [0]
    %9 f32 (2) at 2:16 = map(%7, %8) [x0 + x1]
  )");
  // Where this one begins with a start, a second may start before the wait.
  hoists(R"(
    %1 f32 (2) at 0:0 = persistent "received"
    %2 f32 (4) at 0:8 = persistent "sent"
    %3 f32 (4) at 0:24 = persistent "x"
    %5 f32 (2) = collective_start(%3) {kind: 3, ranks: 2, id: 1}
    %4 f32 (4) = map(%3) [-x0]
    %10 f32 (2) = collective_start(%4) {kind: 3, ranks: 2, id: 2}
    %6 f32 (4) at 2:0 = map(%3) [abs(x0)]
    %7 f32 (2) in %1 = collective_done(%1, %2) {id: 0}
    %8 f32 (2) in %5 = collective_done(%5, %3) {id: 1}
    %11 f32 (2) in %10 = collective_done(%10, %4) {id: 2}
    %9 f32 (2) at 2:16 = map(%7, %8, %11) [x0 + x1 + x2]
  )",
         R"(
    %1 f32 (2) at 0:0 = persistent "received"
    %2 f32 (4) at 0:8 = persistent "sent"
    %3 f32 (4) at 0:24 = persistent "x"
    %5 f32 (2) = collective_start(%3) {kind: 3, ranks: 2, id: 1}
    %4 f32 (4) = map(%3) [-x0]
    %10 f32 (2) = collective_start(%4) {kind: 3, ranks: 2, id: 2}
    %8 f32 (2) in %5 = collective_done(%5, %3) {id: 1} in_place [0]
    %7 f32 (2) in %1 = collective_done(%1, %2) {id: 0} in_place [0]
    %6 f32 (4) at 2:0 = map(%3) [abs(x0)]
    %11 f32 (2) in %10 = collective_done(%10, %4) {id: 2} in_place [0]
    %9 f32 (2) at 2:16 = map(%7, %8, %11) [x0 + x1 + x2]
  )");
}

// What definitions say of the operands that are numbers of rows or of classes.
#include <doctest/doctest.h>

#include <limits>

#include "engine/program/op_def.hpp"
#include "engine/program/op_reference.hpp"
#include "engine/program/op_registry.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

TEST_CASE_FIXTURE(TextFixture,
                  "numbers of rows or classes: which operand, and from where to where") {
  constexpr int64_t kAnyBelow = std::numeric_limits<int64_t>::min();
  const struct {
    const char* line;
    size_t operand;
    int64_t least, end;
    bool labels;
  } kRows[] = {
      {"%20 f32 (4, 5) = gather(%1, %2)", 1, 0, 9, false},
      {"%20 f32 (4, 40) = gather_quantized(%3, %4, %2) {columns: 40}", 2, 0, 6, false},
      {"%20 f32 (4), %21 f32 (4) = cross_entropy(%5, %2)", 1, kAnyBelow, 7, true},
  };
  for (const auto& row : kRows) {
    CAPTURE(row.line);
    read(std::string(R"(
      %1 f32 (9, 5) at 0:0 = persistent "table"
      %2 i32 (4) at 0:256 = persistent "index"
      %3 u8 (6, 40) at 0:320 = persistent "q"
      %4 f32 (6, 2) at 0:640 = persistent "s"
      %5 f32 (4, 7) at 0:704 = persistent "logits"
    )") + row.line);
    const Op& op = g.ops().back();
    REQUIRE((op.def->index_use != nullptr));
    const std::optional<IndexUse> use = op.def->index_use(g, op);
    REQUIRE(use.has_value());
    CHECK(use->operand == row.operand);
    CHECK(use->least == row.least);
    CHECK(use->end == row.end);
    CHECK(use->labels == row.labels);
  }
}

TEST_CASE_FIXTURE(GraphFixture, "a definition as JSON") {
  CHECK(op_json({ops.find("top_k"), ops.find("top_k_grad")}) ==
        R"x({"schema": 1, "ops": [{"name": "top_k", )x"
        R"x("help": "the k greatest numbers of each row, in descending order, and where they )x"
        R"x(are; of equals the first, what is not a number before all", )x"
        R"x("signature": "x (.., E) -> values (.., k), index (.., k)", )x"
        R"x("dtypes": "x floats, values as x, index i32", "gradient": true, )x"
        R"x("sharding": "by a rule", "core": true, "any_attribute": false, )x"
        R"x("attributes": [{"name": "k", "type": "int", "default": null, "choices": "", )x"
        R"x("help": "how many numbers of a row, E at most"}]}, {"name": "top_k_grad", )x"
        R"x("help": "numbers put back to where the index says they come from, 0 elsewhere", )x"
        R"x("signature": "dy (.., k), index (.., k) -> dx (.., extent)", )x"
        R"x("dtypes": "dy floats, index i32, i64 or u8", "gradient": false, )x"
        R"x("sharding": "by a rule", "core": true, "any_attribute": false, )x"
        R"x("attributes": [{"name": "extent", "type": "int", "default": null, )x"
        R"x("choices": "", "help": "E: numbers of a row"}]}]})x");
}

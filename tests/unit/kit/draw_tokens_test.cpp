// What the parser of draw_tokens refuses.
#include "kit/ops/draw_tokens.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/kit/shapes.hpp"

using namespace plait;
using namespace plait::kit;

namespace {

// Two by three rows of 50 logits, as they should be.
struct Operands {
  std::vector<plait_shape> inputs{shape(PLAIT_F32, {2, 3, 50}),
                                  shape(PLAIT_F32, {2, 3, kDrawSettings}),
                                  shape(PLAIT_I32, {2, 3, kDrawNumbers})};
  std::vector<plait_shape> outputs{shape(PLAIT_I32, {2, 3}), shape(PLAIT_F32, {2, 3})};

  DrawTokens parsed() const {
    plait_op_desc d{};
    d.struct_size = sizeof d;
    d.op = "draw_tokens";
    d.n_inputs = static_cast<uint32_t>(inputs.size());
    d.n_outputs = static_cast<uint32_t>(outputs.size());
    d.inputs = inputs.data();
    d.outputs = outputs.empty() ? nullptr : outputs.data();
    return parse_draw_tokens(d);
  }
  std::string refused() const {
    try {
      parsed();
    } catch (const Invalid& e) {
      return e.what();
    }
    return "";
  }
};

std::string input(size_t i, const plait_shape& s) {
  Operands o;
  o.inputs[i] = s;
  return o.refused();
}
std::string output(size_t i, const plait_shape& s) {
  Operands o;
  o.outputs[i] = s;
  return o.refused();
}

}  // namespace

TEST_CASE("draw_tokens: rows, vocabulary and the dims of the ids") {
  Operands o;
  const DrawTokens t = o.parsed();
  CHECK(t.rows == 6);
  CHECK(t.vocabulary == 50);
  CHECK(t.out == std::vector<int64_t>{2, 3});
  o.inputs = {shape(PLAIT_F32, {7}), shape(PLAIT_F32, {3}), shape(PLAIT_I32, {8})};
  o.outputs = {shape(PLAIT_I32, {}), shape(PLAIT_F32, {})};
  CHECK(o.parsed().rows == 1);
  CHECK(o.parsed().out.empty());
  o.inputs = {shape(PLAIT_F32, {0, 7}), shape(PLAIT_F32, {0, 3}), shape(PLAIT_I32, {0, 8})};
  o.outputs = {shape(PLAIT_I32, {0}), shape(PLAIT_F32, {0})};
  CHECK(o.parsed().rows == 0);
}

TEST_CASE("draw_tokens: what it refuses, and how it says so") {
  CHECK(input(0, shape(PLAIT_BF16, {2, 3, 50})) == "logits: found bf16 (2, 3, 50), expected f32");
  CHECK(input(0, shape(PLAIT_F32, {})) == "logits: found f32 (), expected rows of one or more");
  CHECK(input(0, shape(PLAIT_F32, {2, 3, 0})) ==
        "logits: found f32 (2, 3, 0), expected rows of one or more");
  const std::string of_rows = " for each of 6 rows of logits";
  CHECK(input(1, shape(PLAIT_F64, {2, 3, 3})) == "settings: found f64 (2, 3, 3), expected f32");
  CHECK(input(1, shape(PLAIT_F32, {2, 3, 4})) ==
        "settings: found f32 (2, 3, 4), expected 3" + of_rows);
  CHECK(input(1, shape(PLAIT_F32, {2, 2, 3})) ==
        "settings: found f32 (2, 2, 3), expected 3" + of_rows);
  CHECK(input(1, shape(PLAIT_F32, {})) == "settings: found f32 (), expected 3" + of_rows);
  CHECK(input(2, shape(PLAIT_I64, {2, 3, 8})) == "numbers: found i64 (2, 3, 8), expected i32");
  CHECK(input(2, shape(PLAIT_I32, {2, 3, 3})) ==
        "numbers: found i32 (2, 3, 3), expected 8" + of_rows);
  CHECK(output(0, shape(PLAIT_I64, {2, 3})) == "ids: found i64 (2, 3), expected i32");
  CHECK(output(0, shape(PLAIT_I32, {2, 4})) == "ids has shape i32 (2, 4), expected 6 elements");
  CHECK(output(1, shape(PLAIT_F64, {2, 3})) == "log_probability: found f64 (2, 3), expected f32");
  CHECK(output(1, shape(PLAIT_F32, {2})) ==
        "log_probability has shape f32 (2), expected 6 elements");
  Operands few;
  few.inputs.pop_back();
  CHECK(few.refused() == "takes 3 inputs, found 2");
  few = {};
  few.outputs.pop_back();
  CHECK(few.refused() == "has 2 outputs, found 1");
}

// The weights of more logits could sum up to 2^64.
TEST_CASE("draw_tokens: the largest vocabulary") {
  const auto of = [](int64_t vocabulary) {
    Operands o;
    o.inputs[0] = shape(PLAIT_F32, {2, 3, vocabulary});
    return o.refused();
  };
  CHECK(of(kMostDrawn) == "");
  CHECK(of(kMostDrawn + 1) == "a row has 16777216 logits, expected at most 16777215");
  CHECK(kMostDrawn <= static_cast<int64_t>(UINT64_MAX / weight_of(0)));
  CHECK(kMostDrawn + 1 > static_cast<int64_t>(UINT64_MAX / weight_of(0)));
}

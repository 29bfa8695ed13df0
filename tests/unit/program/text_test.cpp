// The text form of programs: what is printed reads back as the same graph.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "engine/base/error.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/passes.hpp"
#include "engine/program/text/expression.hpp"
#include "kit/ops/map.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Operands that an instruction does not have are left out: they mean nothing.
void check_same(const MapExpr& a, const MapExpr& b) {
  CHECK(a.outputs == b.outputs);
  REQUIRE(a.instrs.size() == b.instrs.size());
  for (size_t i = 0; i < a.instrs.size(); ++i) {
    const plait_map_instr &x = a.instrs[i], &y = b.instrs[i];
    const int n = kit::map_arity(x.op);
    CAPTURE(i);
    CHECK(x.op == y.op);
    if (n > 0) CHECK(x.a == y.a);
    if (n > 1) CHECK(x.b == y.b);
    if (n > 2) CHECK(x.c == y.c);
    if (x.op == PLAIT_MAP_CONST) CHECK(same_number(x.value, y.value));
  }
}

// All that the text says, compared field by field.
void check_same(const Graph& a, const Graph& b) {
  CHECK(a.float_type() == b.float_type());
  REQUIRE(a.ops().size() == b.ops().size());
  for (size_t i = 0; i < a.ops().size(); ++i) {
    const Op &x = a.ops()[i], &y = b.ops()[i];
    CAPTURE(i);
    CHECK(x.def == y.def);
    CHECK(x.name == y.name);
    CHECK(x.in == y.in);
    CHECK(x.out == y.out);
    if (x.def) CHECK(checked(*x.def, x.attrs, "").key() == y.attrs.key());
    check_same(x.map, y.map);
    CHECK(x.scope == y.scope);
    CHECK(x.stage == y.stage);
    CHECK(x.backward == y.backward);
    CHECK(x.not_deferred == y.not_deferred);
    for (const auto* list : {&x.in, &x.out})
      for (ValueId v : *list) {
        CAPTURE(v);
        const Value &p = a.value(v), &q = b.value(v);
        CHECK(same(p.shape, q.shape));
        CHECK(p.role == q.role);
        if (p.role == Role::kPersistent) CHECK(p.buffer == q.buffer);
        CHECK(p.name == q.name);
        CHECK(p.producer == q.producer);
        CHECK(p.alias_of == q.alias_of);
        CHECK(p.byte_offset == q.byte_offset);
        CHECK(p.requires_grad == q.requires_grad);
        CHECK(p.weak == q.weak);
        CHECK(a.readers(v) == b.readers(v));
      }
  }
}

struct Fixture : TextFixture {
  void check_round_trip() {
    const std::string text = print(g);
    CAPTURE(text);
    const auto again = parse(text, ops);
    REQUIRE(again.size() == 1);
    CHECK(print(*again[0].graph) == text);
    check_same(g, *again[0].graph);
  }
  // The error of a program of these lines.
  std::string error_of(const std::string& lines) {
    try {
      parse("program \"p\" f32 {\n" + lines + "\n}", ops, "file.txt");
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_INVALID);
      return e.text();
    }
    return "no error";
  }
};

MapExpr expression(const std::string& text, size_t n_inputs) {
  text_form::Lexer lexer(text, "text");
  return text_form::read_expression(lexer, n_inputs);
}

void check_expression(const std::string& text, size_t n_inputs) {
  CHECK(text_form::expression_text(expression(text, n_inputs), n_inputs) == text);
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a program is written line by line") {
  g.scope = "model.fc 1";
  const ValueId x = g.persistent("x", make_shape(PLAIT_F32, {8, 4}), {3, 64}),
                w = g.persistent("fc.\"w\"", make_shape(PLAIT_F32, {4, 2}), {});
  g.value(w).requires_grad = true;
  const ValueId y = g.apply1("matmul", {x, w});
  g.stage = 2;
  g.scope = "relu";
  const ValueId z = g.apply1("relu", {scaled(g, y, 0.5)});
  g.backward = true;
  g.bind(g.apply1("reshape", {z}, {attr("shape", std::vector<int64_t>{16})}), {1, 0});
  g.assign(x, g.apply1("neg", {x}));
  eliminate_dead_ops(g);
  expect(R"(
    %1 f32 (8, 4) at 3:64 = persistent "x"
    %2 f32 (4, 2) at none grad = persistent "fc.\"w\""
    %3 f32 (8, 2) grad = matmul(%1, %2) @"model.fc 1"
    %4 f32 () weak = map() [0.5] @relu stage 2
    %5 f32 (8, 2) grad = map(%3, %4) [x0 * x1] @relu stage 2
    %6 f32 (8, 2) at 1:0 grad = map(%5) [relu(x0)] @relu stage 2
    %7 f32 (16) grad = reshape(%6) {shape: [16]} @relu stage 2 backward
    %8 f32 (8, 4) = map(%1) [-x0] @relu stage 2 backward
    %9 f32 (8, 4) in %1 = map(%8) [copy(x0)] @relu stage 2 backward
  )");
  check_round_trip();
}

TEST_CASE_FIXTURE(Fixture, "buffers, views and values that are not there") {
  read(R"(
    %2 f64 (64) = buffer
    %9 f64 (4) at 0:0 = persistent "unread"
    %4 f64 (2, 2) in %2+32 = map(%9) [x0 + 1.0]
    %3 f64 (8) in %4+8 = view
    %12 f64 () = reduce(%3) {kind: "sum", axes: [0]} @a
    removed
  )",
       "f64");
  CHECK(g.n_values() == 13);
  CHECK(g.storage_of(3) == 2);
  CHECK(g.storage_offset(3) == 40);
  CHECK(g.value(9).name == "unread");
  check_round_trip();
}

TEST_CASE_FIXTURE(Fixture, "a differentiated and fused program reads back") {
  const ValueId x = in({8, 4}), w = in({4, 3}), b = in({3});
  for (ValueId v : {w, b}) g.value(v).requires_grad = true;
  g.scope = "model";
  const ValueId y = g.apply1("tanh", {binary(g, "add", g.apply1("matmul", {x, w}), b)});
  const ValueId loss = g.apply1("reduce", {binary(g, "mul", y, y)},
                                {attr("kind", std::string("sum")),
                                 attr("axes", std::vector<int64_t>{0, 1}), attr("keep", false)});
  const auto d = differentiate(g, loss, {w, b});
  g.bind(loss, {2, 0});
  for (size_t i = 0; i < 2; ++i) g.bind(d[i], {1, 64 * i});
  check_round_trip();
  fold_matmul(g, [](const Graph&, const Op&) { return true; });
  check_round_trip();
  fuse_maps(g);
  check_round_trip();
  CHECK(print(g).find("in_place") == std::string::npos);
}

TEST_CASE("expressions keep what they are") {
  for (const char* text : {"x0",
                           "x0, x1, x0",
                           "copy(x0)",
                           "0.5",
                           "-0.5",
                           "inf",
                           "-inf",
                           "nan",
                           "-x0",
                           "-(0.5)",
                           "--x0",
                           "x0 + x1 + x2",
                           "x0 + (x1 + x2)",
                           "x0 - (x1 - x2)",
                           "(x0 + x1) * x2",
                           "x0 * (x1 / x2)",
                           "-x0 * x1",
                           "-(x0 * x1)",
                           "x0 - -1.0",
                           "x0 * -x1",
                           "-(-0.5)",
                           "select(x0 * 2.0, max(x1, 0.0), fma(x0, x1, -x2))",
                           "t0 = exp(x0); t0 * t0",
                           "t0 = x0 + x1; t0, sqrt(t0)",
                           "t0 = 0.5; t1 = x0 * t0; t0 + t1, t1 * x1",
                           "x0 * 0.1, x1 - 1e-08",
                           "t0 = x0 + 1.0; t1 = x1 + 2.0; t1 * t0",
                           "lt(x0, x1) + le(x0, x1) * eq(x0, 1e+20)",
                           "t0 = exp(x0); x1"})
    check_expression(text, 3);
}

TEST_CASE("any expression reads back with its instructions in their order") {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const auto n_inputs = static_cast<uint32_t>(random() % 4);
    MapExpr map;
    const auto n = static_cast<uint32_t>(1 + random() % 30);
    for (uint32_t k = 0; k < n; ++k) {
      const uint32_t limit = n_inputs + k;
      plait_map_instr instr{static_cast<uint32_t>(random() % (PLAIT_MAP_NOT + 1)), 0, 0, 0, 0};
      if (limit == 0) instr.op = PLAIT_MAP_CONST;
      // Operands nearby, so that many are read once and soon.
      const auto operand = [&] {
        return limit - 1 - static_cast<uint32_t>(random() % std::min(limit, 3u));
      };
      const int arity = kit::map_arity(instr.op);
      if (arity > 0) instr.a = operand();
      if (arity > 1) instr.b = operand();
      if (arity > 2) instr.c = operand();
      if (instr.op == PLAIT_MAP_CONST)
        instr.value = std::ldexp(static_cast<double>(random()) - 2e9, -40);
      map.instrs.push_back(instr);
    }
    const auto n_outputs = static_cast<uint32_t>(1 + random() % 3);
    for (uint32_t k = 0; k < n_outputs; ++k)
      map.outputs.push_back(n_inputs + n - 1 - static_cast<uint32_t>(random() % std::min(n, 4u)));
    const std::string text = text_form::expression_text(map, n_inputs);
    CAPTURE(text);
    check_same(map, expression(text, n_inputs));
  }
}

TEST_CASE_FIXTURE(Fixture, "comments and several programs") {
  const auto all = parse(
      "# of a rank\nprogram \"a\" f32 {  # nothing\n}\nprogram \"b\\n\" f64 { %1 i32 () at 0:0 = "
      "persistent \"x\" }",
      ops);
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "a");
  CHECK(all[0].graph->n_values() == 1);
  CHECK(all[1].name == "b\n");
  CHECK(all[1].graph->float_type() == PLAIT_F64);
  CHECK(print(*all[1].graph, {.name = "c"}) ==
        "program \"c\" f64 {\n  %1 i32 () at 0:0 = persistent \"x\"\n}\n");
}

TEST_CASE_FIXTURE(Fixture, "characters by their number, and the last stage that there is") {
  read(R"(
    %1 f32 () at 0:0 = persistent "a\x09\x1f\x7f\n\\\"\x41\xe9"
    %2 f32 () = map(%1) [-x0] @"\x7f" stage 2147483647
  )");
  CHECK(g.value(1).name == "a\t\x1f\x7f\n\\\"A\xe9");
  CHECK(g.ops()[0].scope == "\x7f");
  CHECK(g.ops()[0].stage == 2147483647);
  check_round_trip();
}

TEST_CASE("an instruction that does not exist is printed by its number") {
  MapExpr map;
  map.instrs = {{PLAIT_MAP_NOT + 1, 0, 0, 0, 0}};
  map.outputs = {1};
  CHECK(text_form::expression_text(map, 1) == "unknown" + std::to_string(PLAIT_MAP_NOT + 1));
}

TEST_CASE_FIXTURE(Fixture, "errors say where, what was found and what was expected") {
  const struct {
    const char *lines, *error;
  } kCases[] = {
      {"  %1 f32 (4) = map(%2) [x0]", ":2:20: found %2, expected a value that some line makes"},
      {"%1 f32 (4 = buffer", ":2:11: found '=', expected ','"},
      {"%1 f33 (4) = buffer", ":2:4: found 'f33', expected an element type: f32"},
      {"%1 f32 (-4) = buffer", ":2:4: [shape] negative extent -4"},
      {"%0 f32 () = buffer", ":2:1: found '%0', expected a value from %1 to %10000000"},
      {"%99999999999999999999 f32 () = buffer", ":2:1: found '%99999999999999999999', expected"},
      {"%1 f32 () = buffer\n%1 f32 () = buffer", ":3:1: found a second line that makes %1"},
      {"%1 f32 () = buffet()", "there is no op 'buffet'"},
      {"%1 f32 () = reduse()", "did you mean 'reduce'?"},
      {"%1 f32 () = exp()", ":2:13: found 'exp', expected 'map' with an expression in []"},
      {"%1 f32 () at 0:0 = buffer", ":2:20: found 'buffer', expected 'persistent', for"},
      {"%1 f32 () = persistent \"x\"", ":2:13: found 'persistent', expected 'at SEGMENT:OFFSET'"},
      {"%1 f32 () = view", ":2:13: found 'view', expected 'in %VALUE' before it"},
      {"%1 f32 () at 0:0 = persistent x", ":2:31: found 'x', expected a name in quotes"},
      {"%1 f32 () at 0:0 = persistent \"x", ":2:31: found a text without an end"},
      {"%1 f32 () at 99999999999:0 = persistent \"x\"", ":2:14: found segment 99999999999"},
      {"%1 f32 () = map() [x0]", "found 'x0', expected"},
      {"%1 f32 () = map() [1.0, 2.0]", ":2:20: found 2 results of the expression, expected 1"},
      {"%1 f32 () = map() [sqr(1.0)]", ":2:20: found 'sqr', expected a function (did you mean"},
      {"%1 f32 () = map() [max(1.0)]", ":2:27: found ')', expected ','"},
      {"%1 f32 () = map() [1.0.0]", ":2:20: found '1.0.0', expected a number that a double"},
      {"%1 f32 () = map() [t0 + 1.0]", ":2:20: found 't0', expected an operand"},
      {"%1 f32 () = map() [x = 1.0; x]", "expected a new name such as t0"},
      {"%1 f32 () = map() [1.0] in_place [0]", "found in_place 0, expected -1 or an operand's"},
      {"%1 f32 () = map() [1.0] in_place []", "found 0 numbers, expected one for each of 1"},
      {"%1 f32 () = map() [1.0] @ stage 1", ":2:33: found '1', expected a value such as %12"},
      {"%1 f32 () = collective_start() {kinds: 1}", "has no attribute 'kinds' (did you mean"},
      {"%1 f32 () = collective_start() {kind: 1, ranks: 2}", "needs the attribute 'id' (int)"},
      {"%1 f32 () = collective_start() {kind: 1.5, ranks: 2, id: 0}", "is real, expected int"},
      {"%1 f32 () = collective_start() {kind: x}", ":2:39: found 'x', expected true, false"},
      {"$", ":2:1: found '$', expected a value such as %12, 'removed' or '}'"},
      {"%", ":2:1: found '%', expected a value such as %12"},
      {"%1 f32 () = %2", ":2:13: found '%2', expected an op, 'persistent', 'buffer' or 'view'"},
      {"%1 \"a\\\"b\"", ":2:4: found \"a\\\"b\", expected an element type"},
      {R"(%1 f32 () at 0:0 = persistent "a\q")",
       R"(:2:31: found a '\' in a text, expected \", \\, \n or \xNN)"},
      {R"(%1 f32 () at 0:0 = persistent "\x4")", R"(found a '\' in a text, expected)"},
      {R"(%1 f32 () at 0:0 = persistent "\x4g")", R"(found a '\' in a text, expected)"},
      {R"(%1 f32 () at 0:0 = persistent "\xg4")", R"(found a '\' in a text, expected)"},
      {R"(%1 f32 () at 0:0 = persistent "\x1F")", R"(found a '\' in a text, expected)"},
      {"%1 f32 (), %2 f32 () = buffer", ":2:24: found several values before 'buffer', expected"},
      {"%1 f32 () = map() [1.0] @5", ":2:26: found '5', expected a scope"},
      {"%1 f32 () = map() [1.0] @a stage 2147483648",
       ":2:34: found stage 2147483648, expected one below 2147483648"},
  };
  for (const auto& c : kCases) {
    const std::string error = error_of(c.lines);
    CAPTURE(c.lines);
    CHECK_MESSAGE(error.find(c.error) != std::string::npos, error);
    CHECK_MESSAGE(error.find("[program] file.txt:") == 0, error);
  }
  CHECK_THROWS_WITH_AS(parse("program \"p\" f32 {", ops),
                       "[program] text:1:18: found the end of the text, expected a value such as "
                       "%12, 'removed' or '}'",
                       Error);
  CHECK_THROWS_WITH_AS(parse("program \"p\" i32 {}", ops),
                       "[program] text:1:13: found 'i32', expected a float type", Error);
  const std::string deep(100000, '(');
  CHECK(error_of("%1 f32 () = map() [" + deep).find("expected fewer parentheses") !=
        std::string::npos);
  const std::string signs(100000, '-');
  CHECK(error_of("%1 f32 () = map() [" + signs).find("expected fewer signs") != std::string::npos);
}

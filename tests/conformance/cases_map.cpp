// Cases of map: every instruction, broadcasting, several outputs, all types, in place.
#include <limits>

#include "tests/conformance/case.hpp"

namespace conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

// y = op(inputs), one instruction.
Case single(uint32_t op, const char* name, std::vector<Input> inputs, const plait_shape& y) {
  Case c{std::string("map ") + name, "map", std::move(inputs), {y}};
  const auto n = static_cast<uint32_t>(c.inputs.size());
  c.map = {{{op, 0, n > 1 ? 1u : 0u, n > 2 ? 2u : 0u, 0.75}}, {n}};
  return c;
}

struct Function {
  uint32_t op;
  const char* name;
  int operands;
  double low = -3, high = 3;
};
constexpr Function kFunctions[] = {{PLAIT_MAP_CONST, "const", 0},
                                   {PLAIT_MAP_COPY, "copy", 1},
                                   {PLAIT_MAP_ADD, "add", 2},
                                   {PLAIT_MAP_SUB, "sub", 2},
                                   {PLAIT_MAP_MUL, "mul", 2},
                                   {PLAIT_MAP_DIV, "div", 2, 0.5, 3},
                                   {PLAIT_MAP_MAX, "max", 2},
                                   {PLAIT_MAP_MIN, "min", 2},
                                   {PLAIT_MAP_POW, "pow", 2, 0.3, 3},
                                   {PLAIT_MAP_NEG, "neg", 1},
                                   {PLAIT_MAP_ABS, "abs", 1},
                                   {PLAIT_MAP_EXP, "exp", 1},
                                   {PLAIT_MAP_LOG, "log", 1, 0.01, 9},
                                   {PLAIT_MAP_SQRT, "sqrt", 1, 0, 9},
                                   {PLAIT_MAP_RSQRT, "rsqrt", 1, 0.2, 9},
                                   {PLAIT_MAP_RECIP, "recip", 1, 0.2, 9},
                                   {PLAIT_MAP_TANH, "tanh", 1},
                                   {PLAIT_MAP_SIGMOID, "sigmoid", 1, -9, 9},
                                   {PLAIT_MAP_ERF, "erf", 1},
                                   {PLAIT_MAP_RELU, "relu", 1},
                                   {PLAIT_MAP_FLOOR, "floor", 1},
                                   {PLAIT_MAP_SIGN, "sign", 1},
                                   {PLAIT_MAP_LT, "lt", 2},
                                   {PLAIT_MAP_LE, "le", 2},
                                   {PLAIT_MAP_EQ, "eq", 2},
                                   {PLAIT_MAP_SELECT, "select", 3},
                                   {PLAIT_MAP_FMA, "fma", 3},
                                   {PLAIT_MAP_EXPM1, "expm1", 1, -1, 1},
                                   {PLAIT_MAP_LOG1P, "log1p", 1, -0.5, 1},
                                   {PLAIT_MAP_IS_FINITE, "is_finite", 1},
                                   {PLAIT_MAP_AND, "and", 2},
                                   {PLAIT_MAP_OR, "or", 2},
                                   {PLAIT_MAP_NOT, "not", 1}};

// Numbers that functions must handle: the same set for both operands in every combination.
Input special(const plait_shape& s, int operand) {
  constexpr double kNumbers[] = {0, 1, -1, kInf, -kInf, kNan, 2.5, -0.5};
  Input in{s};
  for (int64_t i = 0; i < 64; ++i)
    in.set.push_back({i, kNumbers[operand == 0 ? i / 8 : operand == 1 ? i % 8 : (i + i / 8) % 8]});
  return in;
}

void add_functions(std::vector<Case>& out) {
  for (const Function& f : kFunctions) {
    for (int64_t n : {1, 7, 33, 1000}) {
      const plait_shape s = f32({n});
      Case c =
          single(f.op, f.name,
                 std::vector<Input>(static_cast<size_t>(f.operands), Input{s, f.low, f.high}), s);
      if (f.operands) c.in_place = {0};
      if (f.op == PLAIT_MAP_EQ) c.inputs[1] = c.inputs[0];
      out.push_back(c);
    }
    const plait_shape s = f32({64});
    std::vector<Input> inputs;
    for (int i = 0; i < f.operands; ++i) inputs.push_back(special(s, i));
    Case c = single(f.op, f.name, inputs, s);
    c.name += " of special numbers";
    out.push_back(c);
  }
}

void add_shapes(std::vector<Case>& out) {
  const auto add = [&](std::vector<int64_t> a, std::vector<int64_t> b, std::vector<int64_t> y) {
    Case c = single(PLAIT_MAP_SUB, "sub", {{f32(a)}, {f32(b)}}, f32(y));
    c.name += " " + plait::Shape(f32(a)).text() + " and " + plait::Shape(f32(b)).text();
    out.push_back(c);
  };
  add({32, 120}, {120}, {32, 120});
  add({32, 120}, {32, 1}, {32, 120});
  add({32, 120}, {}, {32, 120});
  add({}, {}, {});
  add({1}, {5}, {5});
  add({4, 1, 6}, {5, 1}, {4, 5, 6});
  add({2, 3, 1, 5, 1}, {3, 4, 1, 7}, {2, 3, 4, 5, 7});
  add({0}, {1}, {0});
  add({3, 0}, {3, 1}, {3, 0});
  add({1, 33}, {17, 1}, {17, 33});
  add({300, 257}, {1, 257}, {300, 257});
}

void add_types(std::vector<Case>& out) {
  for (uint32_t from :
       {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_F16, PLAIT_I32, PLAIT_I64, PLAIT_U8, PLAIT_BOOL})
    for (uint32_t to : {PLAIT_F32, PLAIT_F64, PLAIT_BF16, PLAIT_F16, PLAIT_I32, PLAIT_I64, PLAIT_U8,
                        PLAIT_BOOL}) {
      const bool whole = from == PLAIT_U8 || from == PLAIT_BOOL;
      const plait_shape x = shape(from, {67}), y = shape(to, {67});
      Case c = single(PLAIT_MAP_COPY, "cast",
                      {{x, whole ? 0.0 : -4.0, from == PLAIT_BOOL ? 2.0 : 5.0}}, y);
      if (from <= PLAIT_F16)
        c.inputs[0].set = {{5, kNan}, {6, kInf}, {7, -kInf}, {8, 60000}, {9, -60000}, {10, 1e-7}};
      c.name += " " + std::to_string(from) + " to " + std::to_string(to);
      out.push_back(c);
    }
}

// AdamW as the optimizers write it: four inputs, three outputs, each aliasing its input.
void add_update(std::vector<Case>& out) {
  for (int64_t n : {1, 84, 94080}) {
    const plait_shape s = f32({n});
    Case c{"map of an adam update of " + std::to_string(n),
           "map",
           {{s, -1, 1}, {s, -1, 1}, {s, -1, 1}, {s, 0, 1}, {f32({}), 0.01, 0.02}},
           {s, s, s}};
    enum : uint32_t { p, g, m, v, rate, b1, b1c, b2, b2c, eps };
    c.map.instrs = {{PLAIT_MAP_CONST, 0, 0, 0, 0.9},  {PLAIT_MAP_CONST, 0, 0, 0, 0.1},
                    {PLAIT_MAP_CONST, 0, 0, 0, 0.99}, {PLAIT_MAP_CONST, 0, 0, 0, 0.01},
                    {PLAIT_MAP_CONST, 0, 0, 0, 1e-3}, {PLAIT_MAP_MUL, m, b1, 0, 0},  // 10
                    {PLAIT_MAP_FMA, g, b1c, 10, 0},                                  // 11: m'
                    {PLAIT_MAP_MUL, g, g, 0, 0},                                     // 12
                    {PLAIT_MAP_MUL, v, b2, 0, 0},                                    // 13
                    {PLAIT_MAP_FMA, 12, b2c, 13, 0},                                 // 14: v'
                    {PLAIT_MAP_SQRT, 14, 0, 0, 0},    {PLAIT_MAP_ADD, 15, eps, 0, 0},
                    {PLAIT_MAP_DIV, 11, 16, 0, 0},    {PLAIT_MAP_MUL, 17, rate, 0, 0},
                    {PLAIT_MAP_SUB, p, 18, 0, 0}};
    c.map.outputs = {19, 11, 14};
    c.in_place = {0, 2, 3};
    out.push_back(c);
  }
}

}  // namespace

void add_map_cases(std::vector<Case>& out) {
  add_functions(out);
  add_shapes(out);
  add_types(out);
  add_update(out);
}

}  // namespace conformance

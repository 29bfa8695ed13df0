// Programs as text: one line for each value from outside and for each op. Deterministic, so that
// two texts can be compared line by line; parse() reads it back.
//
//   program "update" f32 {
//     %1 f32 (64, 10) at 3:0 = persistent "x"
//     %2 f32 (10, 4) at 0:0 grad = persistent "model.fc.weight"
//     %3 f32 (64, 4) = matmul(%1, %2) @model.fc
//     %4 f32 (64, 4) at 5:0 = map(%3) [max(x0, 0.0)] @model.relu stage 1 backward
//   }
//
// %N is value N of the graph: a pass leaves the numbers of what it leaves alone. The type of a
// result stands behind it, and then
//   at S:O        it lies outside the program, at byte O of segment S (`at none`: it has no place)
//   in %V[+O]     it lies in the memory of %V, O bytes from its beginning
//   grad, weak    Value::requires_grad, Value::weak
// Values that no op makes are `persistent "name"`, `buffer` (transient memory that others lie in)
// or `view` (what lies somewhere in a buffer). Behind an op's operands come its attributes in {}
// where they are not the default, the expression of a map in [] (expression.hpp), `in_place [..]`
// (for each result the operand whose memory it takes, or -1), @scope, `stage N` unless it is 0,
// `backward` and `not_deferred`. `removed` is an op that a rewrite took out. Comments go from # to
// the end of the line.
#pragma once

#include <functional>
#include <string>

#include "engine/program/graph.hpp"

namespace plait::program {

struct PrintOptions {
  std::string name = {};                               // of the program
  std::function<std::string(size_t op)> comment = {};  // behind an op; empty text: none
};

// The whole graph. Values that nothing refers to are left out unless they have a name.
std::string print(const Graph& g, const PrintOptions& options = {});

// The line of one op, without blanks before it and without its end.
std::string op_line(const Graph& g, size_t op);

}  // namespace plait::program

// Reads programs from their text form (print.hpp).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

struct ParsedProgram {
  std::string name;
  std::unique_ptr<Graph> graph;
};

// All programs of a text, in its order. Values keep their numbers; numbers that the text leaves out
// are values that nothing refers to. Shapes are taken as they are written: verify() compares them
// with the ops. A graph made by apply() knows what it made before, the one that is read does not:
// equal ops become two.
// registry: outlives the graphs. origin: what the text was read from, for messages.
// Errors: PLAIT_ERR_INVALID with line and column, what was found and what was expected.
std::vector<ParsedProgram> parse(std::string_view text, const OpRegistry& registry,
                                 const std::string& origin = "text");

}  // namespace plait::program

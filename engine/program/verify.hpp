// Checks that a program is what every pass must leave behind. A fault is one of the engine, never
// of an experiment: the error is PLAIT_ERR_INTERNAL and names the pass, the program, the op as text
// (text/print.hpp) and what is wrong with it.
//
// - Each value has one producer, an op stands behind the producers of what it reads, and the lists
//   of readers agree with the operands.
// - Results have the shapes and types that the op's definition infers from its operands; an
//   expression fits its operands.
// - Memory that an op reads was written, and nothing has overwritten it since. An op that writes
//   where one of its operands lies works element by element on it.
// - A collective is started once and waited for at most once, behind its start. In between nobody
//   writes what it sends, and nobody reads or writes what it makes; transient memory stays until
// its
//   end.
#pragma once

#include <optional>
#include <string>

#include "engine/program/graph.hpp"

namespace plait::program {

struct Fault {
  int32_t op = -1;   // -1: of a value that no op has made
  std::string what;  // "reads %3, which a later op makes"
};

// The first fault of a program; none: it is valid.
std::optional<Fault> find_fault(const Graph& g);

// Throws the first fault. pass: what ran last. program: its name.
void verify(const Graph& g, const std::string& pass, const std::string& program);

// The error of a fault that a check of another kind found.
[[noreturn]] void fail_verify(const Graph& g, const Fault& fault, const std::string& pass,
                              const std::string& program);

// Whether the environment variable PLAIT_VERIFY is 1. The tests set it.
bool verify_enabled();

// verify() where it is enabled.
inline void verify_after(const char* pass, const std::string& program, const Graph& g) {
  if (verify_enabled()) verify(g, pass, program);
}

}  // namespace plait::program

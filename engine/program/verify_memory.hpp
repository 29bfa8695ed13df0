// The part of verify() that follows memory: what is written, overwritten, read and under way.
#pragma once

#include <optional>

#include "engine/program/verify.hpp"

namespace plait::program {

// Of a program whose producers, readers, order and aliases are valid.
std::optional<Fault> find_memory_fault(const Graph& g);
std::optional<Fault> find_collective_fault(const Graph& g);

// Where a value lies. Values of one space may overlap: a segment is one, and so is each transient
// value that owns its memory.
struct Extent {
  int64_t space = 0;  // transient: the value that owns it; persistent: -1 - segment
  uint64_t begin = 0, end = 0;
  bool overlaps(const Extent& e) const {
    return space == e.space && begin < e.end && e.begin < end;
  }
  bool operator==(const Extent&) const = default;
};
Extent extent_of(const Graph& g, ValueId v);

// Whether the op at i changes the memory of its results. Views do not, nor does sending.
bool writes(const Graph& g, size_t i);

}  // namespace plait::program

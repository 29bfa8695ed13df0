// Persistent memory of a plan: named segments of one arena.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::plan {

enum class Category { kParameters, kGradients, kOptimizer, kInputs, kResults };
inline constexpr int kCategories = 5;
const char* category_name(Category c);

constexpr int32_t kTransient = -1;  // Place::segment of values that live inside a program only

struct Segment {
  std::string name;
  Category category;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // in the arena, after lay_out()
};

class Storage {
 public:
  // A new, empty segment.
  int32_t add(std::string name, Category category);
  // Takes `bytes` at the end of a segment; alignment 64 unless the scalar asks for less.
  program::Place take(int32_t segment, uint64_t bytes, uint64_t alignment = 64);
  // Sets the offsets; returns the size of all segments together.
  uint64_t lay_out();
  const std::vector<Segment>& segments() const { return segments_; }
  uint64_t bytes_of(Category c) const;

 private:
  std::vector<Segment> segments_;
};

}  // namespace plait::plan

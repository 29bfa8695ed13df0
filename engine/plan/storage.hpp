// Persistent memory of a plan: named segments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/program/graph.hpp"
#include "engine/program/shape.hpp"
#include "engine/topology/grid.hpp"

namespace plait::plan {

// kActivations: saved activations of a pipeline stage for the micro-batches in flight. kCache: keys
// and values of generation. kLowParameters: copies of parameters in the type that products compute
// in. kQuantizedWeights: of generation, as numbers of 8 bits and scales.
enum class Category {
  kParameters,
  kGradients,
  kOptimizer,
  kInputs,
  kResults,
  kActivations,
  kCache,
  kLowParameters,
  kQuantizedWeights
};
inline constexpr int kCategories = 9;
const char* category_name(Category c);

constexpr int32_t kTransient = -1;  // BufferRef::segment of values that live inside a program only

// Elements of one type that fill a segment from its beginning without gaps.
struct FlatBuffer {
  int32_t segment = -1;
  uint32_t dtype = 0;
  int64_t elements = 0;
  bool exists() const { return segment >= 0; }
  // The location of element `first`.
  program::BufferRef at(int64_t first) const { return {segment, program::bytes_of(first, dtype)}; }
  uint64_t bytes() const { return program::bytes_of(elements, dtype); }
};

// The location `elements` elements behind `at`.
inline program::BufferRef offset_by(program::BufferRef at, int64_t elements, uint32_t dtype) {
  return {at.segment, at.offset + program::bytes_of(elements, dtype)};
}

struct Segment {
  std::string name;
  Category category;
  uint64_t bytes = 0;  // of one slot
  int32_t slots = 1;   // copies, one behind another, each for one micro-batch in flight
  // The axis whose ranks reduce the segment in place, if possible in memory shared by them.
  std::optional<topology::Axis> reduced_along = {};
  uint64_t slot_bytes() const { return slots > 0 ? bytes : 0; }
  uint64_t all_bytes() const { return bytes * static_cast<uint64_t>(slots); }
};

class Storage {
 public:
  // A new, empty segment.
  int32_t add(std::string name, Category category, int32_t slots = 1);
  // Allocates `bytes` at the end of a segment, aligned to 64 unless the caller asks for less.
  program::BufferRef allocate(int32_t segment, uint64_t bytes, uint64_t alignment = 64);
  // A new, empty segment of elements of one type.
  FlatBuffer add_flat(std::string name, Category category, uint32_t dtype);
  // Adds n elements at the end of a flat buffer; returns the location of the first.
  program::BufferRef append(FlatBuffer& buffer, int64_t n);
  void reduce_along(int32_t segment, topology::Axis axis) {
    segments_.at(static_cast<size_t>(segment)).reduced_along = axis;
  }
  // Rounds the segments up to whole cache lines; returns the sum of their sizes.
  uint64_t lay_out();
  const std::vector<Segment>& segments() const { return segments_; }
  uint64_t bytes_of(Category c) const;

 private:
  std::vector<Segment> segments_;
};

}  // namespace plait::plan

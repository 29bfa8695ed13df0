#include "engine/plan/storage.hpp"

#include "engine/base/checked.hpp"
#include "engine/base/error.hpp"

namespace plait::plan {

const char* category_name(Category c) {
  static const char* const kNames[] = {"parameters", "gradients",      "optimizer",
                                       "inputs",     "results",        "activations",
                                       "cache",      "low_parameters", "int8_weights"};
  return kNames[static_cast<int>(c)];
}

int32_t Storage::add(std::string name, Category category, int32_t slots) {
  segments_.push_back({std::move(name), category, 0, slots});
  return static_cast<int32_t>(segments_.size() - 1);
}

program::BufferRef Storage::allocate(int32_t segment, uint64_t bytes, uint64_t alignment) {
  Segment& s = segments_.at(static_cast<size_t>(segment));
  const uint64_t at = checked_round_up(s.bytes, alignment, "[plan] segment " + s.name);
  s.bytes = checked_add(at, bytes, "[plan] segment " + s.name);
  return {segment, at};
}

FlatBuffer Storage::add_flat(std::string name, Category category, uint32_t dtype) {
  return {add(std::move(name), category), dtype, 0};
}

program::BufferRef Storage::append(FlatBuffer& buffer, int64_t n) {
  const program::BufferRef at = allocate(buffer.segment, program::bytes_of(n, buffer.dtype),
                                         program::dtype_bytes(buffer.dtype));
  if (at != buffer.at(buffer.elements))
    fail_internal("[plan] something else lies in flat segment " +
                  segments_.at(static_cast<size_t>(buffer.segment)).name);
  buffer.elements += n;
  return at;
}

uint64_t Storage::lay_out() {
  uint64_t at = 0;
  for (Segment& s : segments_) {
    s.bytes = checked_round_up(s.bytes, 64, "[plan] segment " + s.name);
    const uint64_t all =
        checked_mul(s.bytes, static_cast<uint64_t>(s.slots), "[plan] bytes of the arena");
    at = checked_add(at, all, "[plan] bytes of the arena");
  }
  return at;
}

uint64_t Storage::bytes_of(Category c) const {
  uint64_t sum = 0;
  for (const Segment& s : segments_)
    if (s.category == c) sum += s.all_bytes();
  return sum;
}

}  // namespace plait::plan

// A copy of a plan's flat buffer in host memory. Its elements are read and written as doubles,
// whatever their type.
#pragma once

#include <vector>

#include "engine/plan/storage.hpp"
#include "engine/program/elements.hpp"

namespace plait::session {

class HostBuffer {
 public:
  explicit HostBuffer(const plan::FlatBuffer& like)
      : like_(like), bytes_(static_cast<size_t>(like.bytes())) {}
  // The element that lies at this place of the buffer.
  double get(program::BufferRef at) const {
    return program::load_element(like_.dtype, bytes_.data(), index(at));
  }
  void set(program::BufferRef at, double v) {
    program::store_element(like_.dtype, bytes_.data(), index(at), v);
  }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  uint64_t bytes() const { return bytes_.size(); }
  program::BufferRef place() const { return like_.at(0); }

 private:
  int64_t index(program::BufferRef at) const {
    return static_cast<int64_t>(at.offset / program::dtype_bytes(like_.dtype));
  }
  plan::FlatBuffer like_;
  std::vector<char> bytes_;
};

}  // namespace plait::session

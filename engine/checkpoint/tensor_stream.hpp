// A tensor of a checkpoint read from its first element to its last in pieces, however ranks have
// divided it: for tensors that are larger than memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/base/hash.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/topology/box.hpp"

namespace plait::checkpoint {

class TensorStream {
 public:
  static constexpr int64_t kPieceElements = 1 << 18;

  // `from` and `tensor`, which belongs to it, must outlive the stream.
  TensorStream(const Checkpoint& from, const TensorRecord& tensor);

  // The next elements, row-major, in the tensor's type; they are valid until the next call. Empty
  // behind the last one: then all checksums have been compared. Pieces depend on the shape alone,
  // so that two streams of equal shape have the same ones.
  // Errors: PLAIT_ERR_DATA for a slice that is missing, of another type or shape, or damaged;
  // PLAIT_ERR_IO.
  std::span<const std::byte> next();
  // Of the first element of the piece that next() returned last.
  int64_t position() const { return position_; }

 private:
  struct Slice {
    const SliceRecord* record;
    const SafetensorsFile* file;
    const TensorEntry* entry;
    Hasher hasher;
    uint64_t read = 0;  // bytes
  };
  bool next_box();
  void copy_part(Slice& slice);
  void compare_checksums() const;

  const Checkpoint& from_;
  const TensorRecord& tensor_;
  uint64_t element_;  // bytes
  std::deque<Slice> slices_;
  // A box has one index in the dimensions before split_, at most rows_ in that one, and all of the
  // others: its elements follow each other in the tensor, and in each slice.
  size_t split_ = 0;
  int64_t rows_ = 1;
  topology::Box box_;
  int64_t position_ = 0, end_ = 0;
  bool begun_ = false, ended_ = false;
  std::vector<std::byte> piece_, part_;
};

}  // namespace plait::checkpoint

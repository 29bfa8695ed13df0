#include "engine/checkpoint/tensor_stream.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::checkpoint {

TensorStream::TensorStream(const Checkpoint& from, const TensorRecord& tensor)
    : from_(from), tensor_(tensor), element_(dtype_bytes(tensor.dtype)) {
  for (const SliceRecord& s : tensor.slices) {
    const SafetensorsFile& file = from.file(s.file);
    const TensorEntry* entry = file.header().find(s.key);
    if (!entry || entry->dtype != tensor.dtype || entry->shape != s.extent)
      fail_data("[checkpoint] " + file.path() + ": tensor '" + printable(tensor.name) +
                "' does not match the manifest");
    Slice& slice = slices_.emplace_back();
    slice.record = &s;
    slice.file = &file;
    slice.entry = entry;
  }
  const std::vector<int64_t>& shape = tensor.shape;
  int64_t inner = 1;  // elements of one index of dimension split_
  split_ = shape.size();
  while (split_ > 0) {
    --split_;
    if (split_ == 0 || shape[split_] == 0 || inner > kPieceElements / shape[split_]) break;
    inner *= shape[split_];
  }
  rows_ = std::max<int64_t>(1, kPieceElements / inner);
  ended_ = topology::elements(shape) == 0;
}

// False behind the last one.
bool TensorStream::next_box() {
  const std::vector<int64_t>& shape = tensor_.shape;
  if (!begun_) {
    begun_ = true;
    box_ = topology::full_box(shape);
    for (size_t d = 0; d < split_; ++d) box_.extent[d] = 1;
    if (!shape.empty()) box_.extent[split_] = std::min(rows_, shape[split_]);
    return true;
  }
  if (shape.empty()) return false;
  box_.offset[split_] += box_.extent[split_];
  for (size_t d = split_; box_.offset[d] == shape[d]; --d) {
    if (d == 0) return false;
    box_.offset[d] = 0;
    ++box_.offset[d - 1];
  }
  box_.extent[split_] = std::min(rows_, shape[split_] - box_.offset[split_]);
  return true;
}

// Reads what the slice has of the box, which is one run of its bytes, and puts it in place.
void TensorStream::copy_part(Slice& slice) {
  topology::Box both;
  if (!topology::intersect({slice.record->offset, slice.record->extent}, box_, both)) return;
  part_.resize(static_cast<uint64_t>(topology::elements(both)) * element_);
  slice.file->read(*slice.entry, slice.read, part_.data(), part_.size());
  slice.hasher.update(part_.data(), part_.size());
  slice.read += part_.size();
  for (size_t d = 0; d < both.offset.size(); ++d) both.offset[d] -= box_.offset[d];
  topology::for_each_run(box_.extent, both, [&](int64_t to, int64_t first, int64_t n) {
    std::memcpy(piece_.data() + static_cast<uint64_t>(to) * element_,
                part_.data() + static_cast<uint64_t>(first) * element_,
                static_cast<uint64_t>(n) * element_);
  });
}

void TensorStream::compare_checksums() const {
  for (const Slice& slice : slices_)
    if (slice.hasher.digest128() != slice.record->hash)
      fail_data("[checkpoint] " + slice.file->path() + ": tensor '" + printable(tensor_.name) +
                "' does not match its checksum: it is damaged" + kDamageHint);
}

std::span<const std::byte> TensorStream::next() {
  if (ended_ || !next_box()) {
    ended_ = true;
    compare_checksums();
    return {};
  }
  position_ = end_;
  const int64_t n = topology::elements(box_);
  end_ += n;
  piece_.resize(static_cast<uint64_t>(n) * element_);
  for (Slice& slice : slices_) copy_part(slice);
  return piece_;
}

}  // namespace plait::checkpoint

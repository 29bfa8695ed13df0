// A dataset whose fields lie in memory, one after another sample. Reading copies, allocates nothing
// and takes no lock.
#pragma once

#include "kit/dtype.hpp"
#include "plugins/support/file_bytes.hpp"

#include <xxhash.h>

#include <cmath>
#include <deque>
#include <vector>

namespace plait::data {

class MemoryDataset {
 public:
  explicit MemoryDataset(std::string part) : part_(std::move(part)) {}

  // A field of `n` samples. `bytes` holds them from `offset` on, exactly; `shape` is that of one
  // sample.
  void add(const char* name, uint32_t role, const Shape& shape, int64_t n, support::Bytes bytes,
           size_t offset = 0) {
    if (fields_.empty()) n_ = n;
    if (n != n_)
      fail(PLAIT_ERR_DATA, "[" + part_ + "] field '" + fields_[0].name + "' has " +
                               std::to_string(n_) + " samples and field '" + name + "' " +
                               std::to_string(n) +
                               ", expected as many; the files do not belong together");
    names_.emplace_back(name);
    fields_.push_back({names_.back().c_str(), role, 0, shape.raw()});
    const auto size = static_cast<size_t>(shape.count()) * kit::dtype_bytes(shape.dtype);
    hash(name, std::strlen(name));
    hash(&fields_.back().shape, sizeof(plait_shape));
    hash(bytes.data() + offset, bytes.size() - offset);
    host_bytes_ += bytes.size();
    columns_.push_back({std::move(bytes), offset, size});
  }

  // The field just added must hold weights: finite, not negative.
  void check_weights(const support::SourceFile& source) const {
    const Column& c = columns_.back();
    for (int64_t i = 0; i < n_; ++i) {
      float w;
      std::memcpy(&w, c.bytes.data() + c.offset + static_cast<size_t>(i) * c.size, sizeof w);
      if (!std::isfinite(w) || w < 0)
        fail(PLAIT_ERR_DATA, source.text() + ": the weight of sample " + std::to_string(i) +
                                 " is " + std::to_string(w) +
                                 ", expected a finite number that is not negative");
    }
  }

  void info(plait_dataset_info& out) const {
    out.n_samples = n_;
    out.fields = fields_.data();
    out.n_fields = static_cast<uint32_t>(fields_.size());
    out.host_bytes = host_bytes_;
    out.fingerprint = fingerprint_;
  }

  void read(std::span<const int64_t> indices, void* const* outs) const {
    for (const int64_t i : indices)
      if (i < 0 || i >= n_)
        fail(PLAIT_ERR_INVALID, "[" + part_ + "] sample " + std::to_string(i) +
                                    " was asked for, there are " + std::to_string(n_));
    for (size_t f = 0; f < columns_.size(); ++f) {
      const Column& c = columns_[f];
      if (c.size == 0) continue;
      auto* to = static_cast<uint8_t*>(outs[f]);
      for (const int64_t i : indices) {
        std::memcpy(to, c.bytes.data() + c.offset + static_cast<size_t>(i) * c.size, c.size);
        to += c.size;
      }
    }
  }

 private:
  struct Column {
    support::Bytes bytes;
    size_t offset, size;  // where the samples begin; bytes of one
  };
  void hash(const void* p, size_t n) { fingerprint_ = XXH3_64bits_withSeed(p, n, fingerprint_); }

  std::string part_;
  int64_t n_ = 0;
  std::deque<std::string> names_;
  std::vector<plait_field> fields_;
  std::vector<Column> columns_;
  uint64_t host_bytes_ = 0, fingerprint_ = 0;
};

// Real numbers of f64 made f32 in place; `bytes` holds them from `offset` on and shrinks.
inline void narrow_f64(support::Bytes& bytes, size_t offset) {
  const size_t n = (bytes.size() - offset) / 8;
  for (size_t i = 0; i < n; ++i) {
    double wide;
    std::memcpy(&wide, bytes.data() + offset + 8 * i, 8);
    const auto narrow = static_cast<float>(wide);
    std::memcpy(bytes.data() + offset + 4 * i, &narrow, 4);
  }
  bytes.resize(offset + 4 * n);
  bytes.shrink();
}

}  // namespace plait::data

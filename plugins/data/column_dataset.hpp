// A dataset whose fields lie in memory, or in files that are read by position: a file larger than
// `memory_mib` is never held as a whole, however many epochs read it. Reading allocates nothing and
// takes no lock. Files are not mapped: one that is truncated meanwhile gives an error, no signal.
#pragma once

#include "kit/dtype.hpp"
#include "plugins/data/ignored_labels.hpp"
#include "plugins/support/file_bytes.hpp"
#include "plugins/support/steady_file.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <memory>
#include <vector>

namespace plait::data {

inline constexpr plait_option kMemoryMib =
    in_unit(at_most(at_least(opt_int("memory_mib", "256",
                                     "a file up to this size is held in memory; the samples of a "
                                     "larger one are read from it when they are needed"),
                             0),
                    1 << 24),
            "MiB");
inline constexpr char kLessMemory[] = "set memory_mib to less, if it is not packed";

// Real numbers of f64 as f32. from and to may be the same memory.
inline void narrow(const uint8_t* from, uint8_t* to, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    double wide;
    std::memcpy(&wide, from + 8 * i, 8);
    const auto narrow = static_cast<float>(wide);
    std::memcpy(to + 4 * i, &narrow, 4);
  }
}
// The same in place; `bytes` holds them from `offset` on and shrinks.
inline void narrow_f64(support::Bytes& bytes, size_t offset) {
  const size_t n = (bytes.size() - offset) / 8;
  narrow(bytes.data() + offset, bytes.data() + offset, n);
  bytes.resize(offset + 4 * n);
  bytes.shrink();
}

class ColumnDataset {
 public:
  // metadata: no samples will be read, so files are opened for their headers alone.
  explicit ColumnDataset(std::string part, bool metadata = false)
      : part_(std::move(part)), metadata_(metadata) {}

  bool metadata_only() const { return metadata_; }
  // Whether a file of that size is held in memory, and not read by position.
  bool fits_memory(const Options& o, uint64_t bytes) const {
    return !metadata_ && bytes <= static_cast<uint64_t>(o.integer("memory_mib")) << 20;
  }

  // A field of `n` samples in memory. `bytes` holds them from `offset` on, exactly; `shape` is that
  // of one sample.
  void add(const char* name, uint32_t role, const Shape& shape, int64_t n, support::Bytes bytes,
           size_t offset = 0) {
    const size_t size = declare(name, role, shape, n);
    host_bytes_ += bytes.size();
    columns_.push_back({std::move(bytes), nullptr, offset, size, false});
    hash_values(columns_.back());
  }

  // A field of `n` samples in a file, from `offset` on; is_f64: as f64, of which `shape` is the f32
  // form.
  void add_file(const char* name, uint32_t role, const Shape& shape, int64_t n,
                std::shared_ptr<const support::SteadyFile> file, uint64_t offset, bool is_f64) {
    const size_t size = declare(name, role, shape, n);
    columns_.push_back({{}, std::move(file), offset, size, is_f64});
    hash_values(columns_.back());
  }

  // The field just added, which is in memory, must hold weights: finite, not negative.
  void check_weights(const support::SourceFile& source) const {
    if (metadata_) return;
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

  // Tells of the field just added, where it is of targets in memory, which of its labels are
  // ignored, if that may be a mistake. what: the file, for the log.
  void tell_of_ignored_labels(const Host& host, const std::string& what) const {
    const Column& c = columns_.back();
    const plait_field& field = fields_.back();
    if (c.file || field.role != PLAIT_FIELD_TARGET || c.size == 0) return;
    const uint32_t dtype = field.shape.dtype;
    const std::string text = ignored_labels_text(c.bytes.span().subspan(c.offset), dtype,
                                                 c.size / kit::dtype_bytes(dtype));
    if (!text.empty()) host.log(PLAIT_LOG_INFO, what + ": " + text);
  }

  // The file that the samples come from, for text_of().
  void note_source(const std::string& path) { source_ = support::whole_path(path); }
  const char* text_of(uint32_t, uint32_t what, uint64_t index) const noexcept {
    return what == PLAIT_TEXT_SOURCE && index == 0 && !source_.empty() ? source_.c_str() : nullptr;
  }

  void info(plait_dataset_info& out) const {
    out.n_samples = n_;
    out.fields = fields_.data();
    out.n_fields = static_cast<uint32_t>(fields_.size());
    out.host_bytes = host_bytes_;
    out.fingerprint = metadata_ ? 0 : fingerprint_;
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
      if (c.file)
        read_file(c, indices, to);
      else
        for (const int64_t i : indices) {
          std::memcpy(to, c.bytes.data() + c.offset + static_cast<size_t>(i) * c.size, c.size);
          to += c.size;
        }
    }
  }

 private:
  struct Column {
    support::Bytes bytes;
    std::shared_ptr<const support::SteadyFile> file;  // in place of bytes
    uint64_t offset;                                  // where the samples begin
    size_t size;                                      // bytes of one, as it is read
    bool is_f64;                                      // in the file
  };

  // Samples that follow each other are read at once.
  static void read_file(const Column& c, std::span<const int64_t> indices, uint8_t* to) {
    for (size_t first = 0; first < indices.size();) {
      size_t n = 1;
      while (first + n < indices.size() && indices[first + n] == indices[first + n - 1] + 1) ++n;
      read_bytes(c, static_cast<uint64_t>(indices[first]) * c.size, to, n * c.size);
      to += n * c.size;
      first += n;
    }
  }
  // Bytes [at, at + n) of all samples as they are read; of f64, whole numbers.
  static void read_bytes(const Column& c, uint64_t at, uint8_t* to, size_t n) {
    if (!c.file)
      std::memcpy(to, c.bytes.data() + c.offset + at, n);
    else if (c.is_f64)
      read_f64(*c.file, c.offset + at * 2, to, n / 4);
    else
      c.file->read(c.offset + at, to, n);
  }
  static void read_f64(const support::SteadyFile& file, uint64_t at, uint8_t* to, size_t n) {
    std::array<uint8_t, 32768> wide;
    for (size_t done = 0; done < n;) {
      const size_t some = std::min(n - done, wide.size() / 8);
      file.read(at + 8 * done, wide.data(), 8 * some);
      narrow(wide.data(), to + 4 * done, some);
      done += some;
    }
  }

  size_t declare(const char* name, uint32_t role, const Shape& shape, int64_t n) {
    if (fields_.empty()) n_ = n;
    if (n != n_)
      fail(PLAIT_ERR_DATA, "[" + part_ + "] field '" + fields_[0].name + "' has " +
                               std::to_string(n_) + " samples and field '" + name + "' " +
                               std::to_string(n) +
                               ", expected as many; the files do not belong together");
    for (const int64_t extent : shape.dims)
      if (extent == 0)
        fail(PLAIT_ERR_DATA, "[" + part_ + "] field '" + name + "' has samples of shape " +
                                 shape.text() +
                                 ", which hold no value; leave it out, or give each sample some");
    if (std::find(names_.begin(), names_.end(), name) != names_.end())
      fail(PLAIT_ERR_CONFIG, "[" + part_ + "] '" + name +
                                 "' is named twice in input, target and weight; use it once");
    names_.emplace_back(name);
    fields_.push_back({names_.back().c_str(), role, 0, shape.raw()});
    hash(name, std::strlen(name));
    hash(&fields_.back().shape, sizeof(plait_shape));
    return static_cast<size_t>(shape.count()) * kit::dtype_bytes(shape.dtype);
  }

  void hash(const void* p, size_t n) { fingerprint_ = XXH3_64bits_withSeed(p, n, fingerprint_); }
  // Of the samples as they are read, wherever they lie: memory_mib changes no fingerprint. All of
  // them, or 256 blocks, the first and the last among them, of a field of more than 256 MiB.
  void hash_values(const Column& c) {
    if (metadata_) return;
    constexpr uint64_t kMostWhole = uint64_t{256} << 20, kBlocks = 256, kBlock = 4096;
    const uint64_t size = static_cast<uint64_t>(n_) * c.size;
    if (size <= kMostWhole)
      return c.file ? hash_file(c, size) : hash(c.bytes.data() + c.offset, size);
    std::array<uint8_t, kBlock> block;
    hash(&size, sizeof size);
    const uint64_t unit = c.size % 4 == 0 ? 4 : 1;  // f64 is read by whole numbers
    const uint64_t last = (size - kBlock) / unit;
    for (uint64_t i = 0; i < kBlocks; ++i) {
      const uint64_t at = last / (kBlocks - 1) * i + last % (kBlocks - 1) * i / (kBlocks - 1);
      read_bytes(c, at * unit, block.data(), kBlock);
      hash(block.data(), kBlock);
    }
  }
  // As hash() of all bytes at once.
  void hash_file(const Column& c, uint64_t size) {
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                                XXH3_freeState);
    if (!state) throw std::bad_alloc();
    XXH3_64bits_reset_withSeed(state.get(), fingerprint_);
    std::vector<uint8_t> some(std::min<uint64_t>(size, 1 << 20));
    for (uint64_t at = 0; at < size; at += some.size()) {
      const size_t n = std::min<uint64_t>(some.size(), size - at);
      read_bytes(c, at, some.data(), n);
      XXH3_64bits_update(state.get(), some.data(), n);
    }
    fingerprint_ = XXH3_64bits_digest(state.get());
  }

  std::string part_, source_;
  const bool metadata_;
  int64_t n_ = 0;
  std::deque<std::string> names_;
  std::vector<plait_field> fields_;
  std::vector<Column> columns_;
  uint64_t host_bytes_ = 0, fingerprint_ = 0;
};

}  // namespace plait::data

// Opening, verifying and reading checkpoints.
#include <algorithm>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/store.hpp"

namespace plait::checkpoint {

namespace {

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

// Puts a dense block, which comes in pieces, into its place in a dense tensor.
class BlockWriter {
 public:
  BlockWriter(std::byte* whole, std::span<const int64_t> shape, const SliceRecord& slice,
              uint64_t element)
      : whole_(whole), shape_(shape), slice_(slice), element_(element), at_(shape.size(), 0) {
    // Trailing dimensions that the block spans fully are one run of bytes with the dimension before them.
    run_ = element;
    for (inner_ = shape.size(); inner_ > 0;) {
      --inner_;
      run_ *= static_cast<uint64_t>(slice.extent[inner_]);
      if (slice.extent[inner_] != shape[inner_]) break;
    }
  }
  void append(const std::byte* piece, size_t size) {
    while (size > 0) {
      const auto n = static_cast<size_t>(std::min<uint64_t>(size, run_ - filled_));
      std::memcpy(whole_ + position() + filled_, piece, n);
      piece += n;
      size -= n;
      filled_ += n;
      if (filled_ == run_) next_run();
    }
  }

 private:
  uint64_t position() const {
    uint64_t elements = 0;
    for (size_t d = 0; d < shape_.size(); ++d)
      elements = elements * static_cast<uint64_t>(shape_[d]) +
                 static_cast<uint64_t>(slice_.offset[d] + at_[d]);
    return elements * element_;
  }
  void next_run() {
    filled_ = 0;
    for (size_t d = inner_; d-- > 0;) {
      if (++at_[d] < slice_.extent[d]) break;
      at_[d] = 0;
    }
  }
  std::byte* whole_;
  std::span<const int64_t> shape_;
  const SliceRecord& slice_;
  uint64_t element_, run_ = 0, filled_ = 0;
  size_t inner_ = 0;
  std::vector<int64_t> at_;  // of the run, in the block
};

}  // namespace

Checkpoint::Checkpoint(FileSystem& files, std::string path) : path_(std::move(path)) {
  const std::string manifest_path = join_path(path_, kManifestName);
  manifest_ = parse_manifest(files.read_all(manifest_path, kMaxManifestBytes), manifest_path);
  for (const FileRecord& f : manifest_.files) {
    const std::string file_path = join_path(path_, f.name);
    const FileInfo info = files.info(file_path);
    if (info.kind != FileKind::kRegular)
      fail_data("[checkpoint] " + file_path + " is missing, expected by the manifest");
    if (info.size != f.size)
      fail_data(strf("[checkpoint] %s has %llu bytes, expected %llu by the manifest: it is %s",
                     file_path.c_str(), static_cast<unsigned long long>(info.size),
                     static_cast<unsigned long long>(f.size),
                     info.size < f.size ? "truncated" : "damaged"));
    files_.push_back(std::make_unique<SafetensorsFile>(files, file_path));
  }
  verify();
}

const SafetensorsFile& Checkpoint::file(std::string_view name) const {
  for (size_t i = 0; i < manifest_.files.size(); ++i)
    if (manifest_.files[i].name == name) return *files_[i];
  fail_data("[checkpoint] " + path_ + ": the manifest names no file '" + printable(name) + "'");
}

// One pass over every file feeds the file's hash and each tensor's.
void Checkpoint::verify() {
  std::vector<std::vector<Hash128>> found(files_.size());
  std::vector<bool> whole(files_.size());
  for (size_t i = 0; i < files_.size(); ++i) {
    Hasher all;
    all.update(files_[i]->head().data(), files_[i]->head().size());
    for (const TensorEntry& t : files_[i]->header().tensors) {
      Hasher one;
      files_[i]->each_piece(t, [&](const std::byte* piece, size_t n) {
        one.update(piece, n);
        all.update(piece, n);
      });
      found[i].push_back(one.digest128());
    }
    whole[i] =
        all.digest128() == manifest_.files[i].hash && files_[i]->size() == manifest_.files[i].size;
  }
  // Tensors first: a damaged one is then named.
  for (const TensorRecord& t : manifest_.tensors)
    for (const SliceRecord& s : t.slices) {
      const SafetensorsFile& stored = file(s.file);
      const TensorEntry* entry = stored.header().find(s.key);
      const auto wrong = [&](const std::string& what) {
        fail_data("[checkpoint] " + stored.path() + ": tensor '" + printable(t.name) + "' " + what);
      };
      if (!entry) wrong("is missing, expected by the manifest");
      if (entry->dtype != t.dtype || entry->shape != s.extent)
        wrong("is " + entry->dtype_text + " " + shape_text(entry->shape) + ", expected " +
              dtype_name(t.dtype) + " " + shape_text(s.extent) + " by the manifest");
      size_t f = 0;
      while (files_[f].get() != &stored) ++f;
      if (found[f][static_cast<size_t>(entry - stored.header().tensors.data())] != s.hash)
        wrong("does not match its checksum: it is damaged");
    }
  for (size_t i = 0; i < files_.size(); ++i)
    if (!whole[i])
      fail_data("[checkpoint] " + files_[i]->path() +
                " does not match its checksum: it is damaged");
}

void Checkpoint::read(const std::string& name, uint32_t dtype, std::span<const int64_t> shape,
                      void* out) const {
  const TensorRecord* t = find(name);
  if (!t) {
    std::vector<std::string> names;
    for (const TensorRecord& r : manifest_.tensors) names.push_back(r.name);
    fail_not_found("[checkpoint] " + path_ + " has no tensor '" + printable(name) + "'" +
                   did_you_mean(nearest(name, names)));
  }
  if (t->dtype != dtype ||
      !std::equal(shape.begin(), shape.end(), t->shape.begin(), t->shape.end()))
    fail_data("[checkpoint] " + path_ + ": tensor '" + printable(name) + "' is " +
              dtype_name(t->dtype) + " " + shape_text(t->shape) + ", expected " +
              dtype_name(dtype) + " " + shape_text(shape) +
              "; the model in the experiment differs from the one that was saved");
  for (const SliceRecord& s : t->slices) {
    const SafetensorsFile& stored = file(s.file);
    BlockWriter block(static_cast<std::byte*>(out), t->shape, s, dtype_bytes(dtype));
    Hasher hasher;
    stored.each_piece(*stored.header().find(s.key), [&](const std::byte* piece, size_t n) {
      hasher.update(piece, n);
      block.append(piece, n);
    });
    if (hasher.digest128() != s.hash)
      fail_data("[checkpoint] " + stored.path() + ": tensor '" + printable(name) +
                "' has changed since it was verified");
  }
}

std::unique_ptr<Checkpoint> open_newest(FileSystem& files, const std::string& folder, Log& log) {
  std::vector<std::string> reasons;
  for (const CheckpointName& c : list_checkpoints(files, folder)) {
    try {
      auto checkpoint = std::make_unique<Checkpoint>(files, join_path(folder, c.name));
      if (!reasons.empty()) log.warn("[checkpoint] falling back to " + checkpoint->path());
      return checkpoint;
    } catch (const Error& e) {
      const bool damaged =
          e.code() == PLAIT_ERR_DATA || e.code() == PLAIT_ERR_IO || e.code() == PLAIT_ERR_NOT_FOUND;
      if (!damaged) throw;
      log.warn("[checkpoint] passing over " + c.name + ": " + e.text());
      reasons.push_back(c.name + ": " + e.text());
    }
  }
  if (reasons.empty()) return nullptr;
  fail_data("[checkpoint] no checkpoint in " + folder + " is intact:\n  " + join(reasons, "\n  "));
}

std::unique_ptr<Checkpoint> open_checkpoint(FileSystem& files, const std::string& path, Log& log) {
  if (files.is_file(join_path(path, kManifestName)))
    return std::make_unique<Checkpoint>(files, path);
  for (const std::string& folder : {path, join_path(path, "ckpt")})
    if (auto checkpoint = open_newest(files, folder, log)) return checkpoint;
  fail_not_found("[checkpoint] " + path +
                 " is no checkpoint and holds none; name a run directory, its ckpt/ folder, or a "
                 "step-... folder inside");
}

}  // namespace plait::checkpoint

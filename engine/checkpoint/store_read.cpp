// Opening, verifying and reading checkpoints.
#include <algorithm>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/commit_order.hpp"
#include "engine/checkpoint/convert.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/survey.hpp"
#include "engine/checkpoint/unfinished.hpp"
#include "engine/checkpoint/verify.hpp"

namespace plait::checkpoint {

namespace {

// Copies a slice, which arrives in pieces, into a dense block of the tensor; data outside the block
// is dropped.
class BlockWriter {
 public:
  BlockWriter(std::byte* out, const topology::Box& block, const SliceRecord& slice,
              uint64_t element)
      : out_(out), block_(block), slice_(slice), element_(element), at_(slice.offset) {
    last_ = at_.size() - (at_.empty() ? 0 : 1);
    run_ = element * static_cast<uint64_t>(at_.empty() ? 1 : slice.extent[last_]);
    if (!at_.empty())
      keep_ = topology::intersect(
          topology::Range{slice.offset[last_], slice.offset[last_] + slice.extent[last_]},
          {block.offset[last_], block.offset[last_] + block.extent[last_]});
    else
      keep_ = {0, 1};
  }
  void append(const std::byte* piece, size_t size) {
    while (size > 0) {
      const auto n = static_cast<size_t>(std::min<uint64_t>(size, run_ - filled_));
      put(piece, n);
      piece += n;
      size -= n;
      filled_ += n;
      if (filled_ == run_) next_run();
    }
  }

 private:
  // Bytes [filled_, filled_ + n) of the run: a row of the slice along its last dimension.
  void put(const std::byte* piece, size_t n) {
    for (size_t d = 0; d < last_; ++d)
      if (at_[d] < block_.offset[d] || at_[d] >= block_.offset[d] + block_.extent[d]) return;
    const int64_t first = at_.empty() ? 0 : slice_.offset[last_];
    const auto kept_begin = static_cast<uint64_t>(keep_.begin - first) * element_;
    const auto kept_end = static_cast<uint64_t>(keep_.end - first) * element_;
    const uint64_t begin = std::max(filled_, kept_begin), end = std::min(filled_ + n, kept_end);
    if (begin >= end) return;
    int64_t row = 0;
    for (size_t d = 0; d < last_; ++d) row = row * block_.extent[d] + at_[d] - block_.offset[d];
    const int64_t origin = at_.empty() ? 0 : block_.offset[last_];
    const int64_t width = at_.empty() ? 1 : block_.extent[last_];
    const uint64_t to = static_cast<uint64_t>(row * width + first - origin) * element_ + begin;
    std::memcpy(out_ + to, piece + (begin - filled_), end - begin);
  }
  void next_run() {
    filled_ = 0;
    for (size_t d = last_; d-- > 0;) {
      if (++at_[d] < slice_.offset[d] + slice_.extent[d]) break;
      at_[d] = slice_.offset[d];
    }
  }
  std::byte* out_;
  const topology::Box& block_;
  const SliceRecord& slice_;
  uint64_t element_, run_ = 0, filled_ = 0;
  size_t last_ = 0;          // the dimension of a run; 0 also for a scalar
  topology::Range keep_;     // of a run, in the tensor's coordinates
  std::vector<int64_t> at_;  // position of the run in the tensor
};

[[noreturn]] void throw_fault(const Error& fault) { throw fault; }

}  // namespace

Checkpoint::Checkpoint(FileSystem& files, std::string path, Verify when) : path_(std::move(path)) {
  try {
    open(files, when);
  } catch (const Error&) {
    // A run may have taken the states from it since the manifest was read.
    if (manifest_.state.states_left_out || !states_left_out(files, path_)) throw;
    open(files, when);
  }
}

void Checkpoint::open(FileSystem& files, Verify when) {
  manifest_ = read_manifest(files, path_);
  files_.clear();
  for (const FileRecord& f : manifest_.files)
    files_.push_back(open_checked(files, path_, f, throw_fault));
  if (when == Verify::kNow) check_content(path_, manifest_, files_, throw_fault, {});
}

bool Checkpoint::has_file(std::string_view name) const {
  return std::any_of(manifest_.files.begin(), manifest_.files.end(),
                     [&](const FileRecord& f) { return f.name == name; });
}

const SafetensorsFile& Checkpoint::file(std::string_view name) const {
  for (size_t i = 0; i < manifest_.files.size(); ++i)
    if (manifest_.files[i].name == name) return *files_[i];
  fail_data("[checkpoint] " + path_ + ": the manifest names no file '" + printable(name) + "'");
}

void Checkpoint::read(const std::string& name, uint32_t dtype, std::span<const int64_t> shape,
                      void* out) const {
  read_block(name, dtype, shape, topology::full_box({shape.begin(), shape.end()}), out);
}

const TensorRecord& Checkpoint::expect(const std::string& name) const {
  const TensorRecord* t = find(name);
  if (!t) {
    std::vector<std::string> names;
    for (const TensorRecord& r : manifest_.tensors) names.push_back(r.name);
    fail_not_found("[checkpoint] " + path_ + " has no tensor '" + printable(name) + "'" +
                   did_you_mean(nearest(name, names)));
  }
  return *t;
}

const TensorRecord& Checkpoint::expect(const std::string& name, uint32_t dtype,
                                       std::span<const int64_t> shape) const {
  const TensorRecord* t = &expect(name);
  if (!is_convertible(t->dtype, dtype) ||
      !std::equal(shape.begin(), shape.end(), t->shape.begin(), t->shape.end()))
    fail_data("[checkpoint] " + path_ + ": tensor '" + printable(name) + "' is " +
              dtype_name(t->dtype) + " " + shape_text(t->shape) + ", expected " +
              dtype_name(dtype) + " " + shape_text(shape) +
              "; the model in the experiment differs from the one that was saved");
  return *t;
}

const TensorEntry& Checkpoint::entry_of(const TensorRecord& t, const SliceRecord& slice,
                                        const SafetensorsFile& stored) const {
  const TensorEntry* entry = stored.header().find(slice.key);
  if (!entry || entry->dtype != t.dtype || entry->shape != slice.extent)
    fail_data("[checkpoint] " + stored.path() + ": tensor '" + printable(t.name) +
              "' does not match the manifest");
  return *entry;
}

void Checkpoint::each_piece(const TensorRecord& t, const SliceRecord& slice,
                            const std::function<void(const std::byte*, size_t)>& visit) const {
  const SafetensorsFile& stored = file(slice.file);
  Hasher hasher;
  stored.each_piece(entry_of(t, slice, stored), [&](const std::byte* piece, size_t n) {
    hasher.update(piece, n);
    visit(piece, n);
  });
  if (hasher.digest128() != slice.hash)
    fail_data("[checkpoint] " + stored.path() + ": tensor '" + printable(t.name) +
              "' has changed since it was verified");
}

void Checkpoint::read_block(const std::string& name, uint32_t dtype, std::span<const int64_t> shape,
                            const topology::Box& wanted, void* out) const {
  const TensorRecord& t = expect(name, dtype, shape);
  const std::string what = "tensor '" + printable(name) + "' of " + path_;
  Converter converter(t.dtype, dtype, what);
  for (const SliceRecord& s : t.slices) {
    topology::Box both;
    if (!topology::intersect({s.offset, s.extent}, wanted, both)) continue;
    BlockWriter block(static_cast<std::byte*>(out), wanted, s, dtype_bytes(dtype));
    each_piece(t, s, [&](const std::byte* piece, size_t n) {
      const std::byte* const converted = converter.convert(piece, n);
      block.append(converted, n);
    });
  }
}

void Checkpoint::verify(const std::string& name) const {
  const TensorRecord& t = expect(name);
  for (const SliceRecord& s : t.slices) each_piece(t, s, [](const std::byte*, size_t) {});
}

void Checkpoint::read_verified(const std::string& name, uint32_t dtype,
                               std::span<const int64_t> shape, const topology::Box& wanted,
                               void* out) const {
  const TensorRecord& t = expect(name, dtype, shape);
  const std::string what = "tensor '" + printable(name) + "' of " + path_;
  Converter converter(t.dtype, dtype, what);
  const uint64_t element = dtype_bytes(t.dtype);
  std::vector<std::byte> piece;
  for (const SliceRecord& s : t.slices) {
    SliceRecord part = s;  // of the slice, what is wanted
    topology::Box both;
    if (!topology::intersect({s.offset, s.extent}, wanted, both)) continue;
    part.offset = both.offset;
    part.extent = both.extent;
    for (size_t d = 0; d < both.offset.size(); ++d) both.offset[d] -= s.offset[d];
    const SafetensorsFile& stored = file(s.file);
    const TensorEntry& entry = entry_of(t, s, stored);
    BlockWriter block(static_cast<std::byte*>(out), wanted, part, dtype_bytes(dtype));
    constexpr auto kMost = static_cast<int64_t>(SafetensorsFile::kPiece / sizeof(double));
    topology::for_each_run(s.extent, both, [&](int64_t at, int64_t, int64_t n) {
      for (int64_t done = 0; done < n; done += kMost) {
        size_t size = static_cast<size_t>(std::min(kMost, n - done)) * element;
        piece.resize(size);
        stored.read(entry, static_cast<uint64_t>(at + done) * element, piece.data(), size);
        const std::byte* const converted = converter.convert(piece.data(), size);
        block.append(converted, size);
      }
    });
  }
}

std::unique_ptr<Checkpoint> open_newest(FileSystem& files, const std::string& folder, Log& log) {
  std::vector<Commit> commits = read_commits(files, folder);
  sort_newest_first(commits);
  for (const Commit& c : commits)  // one manifest that is not known may change the order of all
    if (!c.refused.empty()) fail_refused(join_path(folder, c.name), c.refused);
  std::vector<std::string> reasons;
  for (const Commit& c : commits) {
    const std::string path = join_path(folder, c.name);
    try {
      auto checkpoint = std::make_unique<Checkpoint>(files, path);
      for (const std::string& reason : reasons)
        log.warn("[checkpoint] " + reason + "; using " + c.name + " instead");
      return checkpoint;
    } catch (const Error& e) {
      std::string why = without_part(e.text());
      const bool damaged =
          e.code() == PLAIT_ERR_DATA || e.code() == PLAIT_ERR_IO || e.code() == PLAIT_ERR_NOT_FOUND;
      if (!damaged || is_of_machine(files, path, e)) {
        for (const std::string& reason : reasons) log.warn("[checkpoint] " + reason);
        if (damaged) fail_refused(path, why);
        throw;
      }
      if (why.ends_with(kDamageHint)) why.resize(why.size() - (sizeof kDamageHint - 1));
      reasons.push_back(c.name + " cannot be used (" + why + ")");
    }
  }
  if (reasons.empty()) return nullptr;
  fail_data("[checkpoint] no checkpoint in " + folder + " is intact:\n  " + join(reasons, "\n  ") +
            "\nrestore one from a backup, or start a new run");
}

bool is_hint(FileSystem& files, const std::string& path) {
  const std::string name = name_of(path);
  return (name == kLatest || name == kBest) && files.is_file(path);
}

namespace {

// path: a file with the name of a checkpoint beside it.
std::unique_ptr<Checkpoint> open_hint(FileSystem& files, const std::string& path) {
  constexpr uint64_t kLongestHint = 64;  // bytes
  std::string name =
      files.info(path).size <= kLongestHint ? files.read_all(path, kLongestHint) : "";
  if (!name.empty() && name.back() == '\n') name.pop_back();
  if (!parse_checkpoint_name(name))
    fail_not_found("[checkpoint] the file '" + path +
                   "' does not hold the name of a checkpoint, as ckpt/best and ckpt/latest do; "
                   "name a run directory or a checkpoint folder");
  return std::make_unique<Checkpoint>(files, join_path(folder_of(path), name));
}

// A run directory in the folder, or in one inside it; "" if there is none. Names begin with their
// time, so the last one is the newest.
std::string newest_run(FileSystem& files, const std::string& folder, int levels) {
  std::vector<std::string> names = files.list(folder);
  std::sort(names.rbegin(), names.rend());
  for (const std::string& name : names) {
    const std::string inner = join_path(folder, name);
    if (!files.is_folder(inner)) continue;
    if (files.is_folder(join_path(inner, kCheckpoints))) return inner;
    if (levels > 1)
      if (const std::string found = newest_run(files, inner, levels - 1); !found.empty())
        return found;
  }
  return "";
}

// "; it holds runs, such as 'runs/demo/TIME'", or "".
std::string runs_in(FileSystem& files, const std::string& folder) {
  const std::string run = newest_run(files, folder, 2);
  return run.empty() ? "" : "; it holds runs, such as '" + run + "'";
}

}  // namespace

std::unique_ptr<Checkpoint> open_checkpoint(FileSystem& files, const std::string& path, Log& log) {
  if (files.is_file(join_path(path, kManifestName)))
    return std::make_unique<Checkpoint>(files, path);
  if (files.is_file(path)) return open_hint(files, path);
  if (const std::string missing = missing_in_save(files, path); !missing.empty())
    fail_not_found("[checkpoint] " + unfinished_text(path, missing) + kNameOne);
  for (const std::string& folder : {path, join_path(path, kCheckpoints)})
    if (auto checkpoint = open_newest(files, folder, log)) return checkpoint;
  fail_not_found("[checkpoint] '" + path +
                 (!files.exists(path) ? "' does not exist"
                                      : "' is not a checkpoint and contains none" +
                                            runs_in(files, path) + unfinished_saves(files, path)) +
                 kNameOne);
}

}  // namespace plait::checkpoint

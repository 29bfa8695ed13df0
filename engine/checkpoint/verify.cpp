#include "engine/checkpoint/verify.hpp"

#include <map>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/file_memory.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/weights.hpp"

namespace plait::checkpoint {
namespace {

using FilePtr = std::unique_ptr<SafetensorsFile>;

Error damage(std::string text) { return Error(PLAIT_ERR_DATA, "[checkpoint] " + std::move(text)); }

// A file that cannot be read is a fault of the checkpoint; anything else ends the check.
bool is_of_file(const Error& e) {
  return e.code() == PLAIT_ERR_DATA || e.code() == PLAIT_ERR_IO || e.code() == PLAIT_ERR_NOT_FOUND;
}

// The checksums of one file: of each of its tensors, in the order of the header, and of the whole.
struct FileHashes {
  bool read = false;
  Hash128 whole;
  std::vector<Hash128> tensors;
};

FileHashes hashes_of(const SafetensorsFile& file, const Progress& progress) {
  constexpr uint64_t kTellEvery = 8u << 20;
  FileHashes found;
  Hasher all;
  uint64_t untold = file.head().size();
  all.update(file.head().data(), file.head().size());
  for (const TensorEntry& t : file.header().tensors) {
    Hasher one;
    file.each_piece(t, [&](const std::byte* piece, size_t n) {
      one.update(piece, n);
      all.update(piece, n);
      if ((untold += n) < kTellEvery || !progress) return;
      progress(untold);
      untold = 0;
    });
    found.tensors.push_back(one.digest128());
  }
  if (progress) progress(untold);
  found.whole = all.digest128();
  found.read = true;
  return found;
}

class ContentCheck {
 public:
  ContentCheck(const std::string& folder, const Manifest& manifest, std::span<const FilePtr> files,
               const FaultSink& fault)
      : folder_(folder), manifest_(manifest), files_(files), fault_(fault) {
    for (size_t f = 0; f < files.size(); ++f) index_.emplace(manifest.files[f].name, f);
  }

  void read(const Progress& progress) {
    for (const FilePtr& file : files_) {
      hashes_.emplace_back();
      if (!file) continue;
      try {
        hashes_.back() = hashes_of(*file, progress);
      } catch (const Error& e) {
        if (!is_of_file(e)) throw;
        fault_(e);
      }
    }
  }

  void slice(const TensorRecord& t, const SliceRecord& s) {
    const auto found = index_.find(s.file);
    if (found == index_.end())
      return fault_(damage(folder_ + ": the manifest names no file '" + printable(s.file) +
                           "', which would hold tensor '" + printable(t.name) + "'"));
    const size_t f = found->second;
    if (!files_[f]) return;
    const SafetensorsFile& stored = *files_[f];
    const std::string what = stored.path() + ": tensor '" + printable(t.name) + "' ";
    const TensorEntry* entry = stored.header().find(s.key);
    if (!entry) return fault_(damage(what + "is missing, expected by the manifest"));
    if (entry->dtype != t.dtype || entry->shape != s.extent)
      return fault_(damage(what + "is " + entry->dtype_text + " " + shape_text(entry->shape) +
                           ", expected " + dtype_name(t.dtype) + " " + shape_text(s.extent) +
                           " by the manifest"));
    const auto at = static_cast<size_t>(entry - stored.header().tensors.data());
    if (!hashes_[f].read || hashes_[f].tensors[at] == s.hash) return;
    fault_(damage(what + "does not match its checksum: it is damaged" + kDamageHint));
    told_.insert(f);
  }

  // Bytes beside the tensors. A file with a damaged tensor cannot match either.
  void file(size_t f) {
    if (!hashes_[f].read || told_.contains(f)) return;
    const FileRecord& record = manifest_.files[f];
    if (hashes_[f].whole != record.hash || files_[f]->size() != record.size)
      fault_(
          damage(files_[f]->path() + " does not match its checksum: it is damaged" + kDamageHint));
  }

 private:
  const std::string& folder_;
  const Manifest& manifest_;
  std::span<const FilePtr> files_;
  const FaultSink& fault_;
  std::map<std::string_view, size_t> index_;  // of each file, by its name
  std::vector<FileHashes> hashes_;
  std::set<size_t> told_;  // files with a damaged tensor
};

}  // namespace

void check_content(const std::string& folder, const Manifest& manifest,
                   std::span<const FilePtr> files, const FaultSink& fault,
                   const Progress& progress) {
  ContentCheck check(folder, manifest, files, fault);
  check.read(progress);
  for (const TensorRecord& t : manifest.tensors)
    for (const SliceRecord& s : t.slices) check.slice(t, s);
  for (size_t f = 0; f < files.size(); ++f) check.file(f);
}

FilePtr open_checked(FileSystem& files, const std::string& folder, const FileRecord& record,
                     const FaultSink& fault) {
  const std::string path = join_path(folder, record.name);
  const FileInfo info = files.info(path);
  const auto bad = [&](const std::string& what) {
    fault(damage(path + " " + what + kDamageHint));
    return nullptr;
  };
  if (info.kind != FileKind::kRegular) return bad("is missing, expected by the manifest");
  if (info.size != record.size)
    return bad(strf("has %llu bytes, expected %llu by the manifest: it is %s",
                    static_cast<unsigned long long>(info.size),
                    static_cast<unsigned long long>(record.size),
                    info.size < record.size ? "truncated" : "damaged"));
  try {
    return std::make_unique<SafetensorsFile>(files, path);
  } catch (const Error& e) {
    // If the header is invalid, a checksum mismatch explains why.
    if (e.code() != PLAIT_ERR_DATA) throw;
    if (hash128_file(files, path) == record.hash) throw;
    fault(
        Error(PLAIT_ERR_DATA,
              "[checkpoint] " + path + " does not match its checksum: it is damaged" + kDamageHint,
              std::make_shared<const Error>(e)));
    return nullptr;
  }
}

namespace {

// Tensors of the files that no slice of the manifest refers to.
void check_extra(const Manifest& manifest, std::span<const FilePtr> files, const FaultSink& fault) {
  std::set<std::pair<std::string_view, std::string_view>> known;
  for (const TensorRecord& t : manifest.tensors)
    for (const SliceRecord& s : t.slices) known.emplace(s.file, s.key);
  for (size_t f = 0; f < files.size(); ++f) {
    if (!files[f]) continue;
    for (const TensorEntry& t : files[f]->header().tensors)
      if (!known.contains({manifest.files[f].name, t.name}))
        fault(damage(files[f]->path() + ": tensor '" + printable(t.name) +
                     "' is not in the manifest"));
  }
}

// The index is not in the manifest, and follows from it.
void check_index(FileSystem& files, const std::string& folder, const Manifest& manifest,
                 const FaultSink& fault) {
  const std::string path = join_path(folder, kWeightsIndexName);
  const FileInfo info = files.info(path);
  if (info.kind == FileKind::kNone) return;
  const std::string expected = checkpoint_index_text(manifest);
  if (info.kind != FileKind::kRegular || info.size != expected.size() ||
      files.read_all(path, kMaxManifestBytes) != expected)
    fault(damage(path + " does not match the manifest: other programs would read other tensors"));
}

void check_tensors(const std::string& folder, const Manifest& manifest, const FaultSink& fault) {
  std::set<std::string_view> names;
  for (const TensorRecord& t : manifest.tensors) {
    const std::string what = folder + ": tensor '" + printable(t.name) + "' ";
    if (!names.insert(t.name).second) fault(damage(what + "is in the manifest twice"));
    if (const char* wrong = slices_error(t))
      fault(damage(what + "is given in slices that must be " + wrong));
  }
}

void check_all(FileSystem& files, const std::string& folder, const FaultSink& fault,
               const Progress& progress, Verification& done) {
  const std::string path = join_path(folder, kManifestName);
  const std::string text = files.read_all(path, kMaxManifestBytes);
  const Manifest manifest = with_memory("checkpoint", "parse", path, text.size(),
                                        [&] { return parse_shard(text, path); });
  done.states_left_out = manifest.state.states_left_out;
  check_tensors(folder, manifest, fault);
  std::vector<FilePtr> opened;
  for (const FileRecord& record : manifest.files) {
    opened.push_back(nullptr);
    try {
      opened.back() = open_checked(files, folder, record, fault);
    } catch (const Error& e) {
      if (!is_of_file(e)) throw;
      fault(e);
    }
    if (opened.back()) done.bytes += opened.back()->size();
  }
  done.files = manifest.files.size();
  done.tensors = manifest.tensors.size();
  check_content(folder, manifest, opened, fault, progress);
  check_extra(manifest, opened, fault);
  check_index(files, folder, manifest, fault);
}

}  // namespace

Verification verify_checkpoint(FileSystem& files, const std::string& folder,
                               const Progress& progress) {
  if (!files.exists(join_path(folder, kManifestName)))
    fail_not_found("[checkpoint] '" + folder + "' has no " + kManifestName +
                   ": it is no checkpoint, or its save was interrupted");
  Verification done;
  bool all_of_io = true;
  const FaultSink fault = [&](const Error& e) {
    std::string text = e.text();
    if (text.ends_with(kDamageHint)) text.resize(text.size() - (sizeof kDamageHint - 1));
    done.faults.push_back(std::move(text));
    all_of_io = all_of_io && e.code() == PLAIT_ERR_IO;
  };
  const auto check = [&] {
    try {
      check_all(files, folder, fault, progress, done);
    } catch (const Error& e) {
      if (!is_of_file(e)) throw;  // a manifest that cannot be read
      fault(e);
    }
  };
  check();
  if (!done.faults.empty() && !done.states_left_out && states_left_out(files, folder)) {
    done = {};
    all_of_io = true;
    check();
  }
  done.unreadable = all_of_io && !done.faults.empty();
  return done;
}

}  // namespace plait::checkpoint

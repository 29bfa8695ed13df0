#include "engine/checkpoint/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/commit_order.hpp"
#include "engine/checkpoint/remove_states.hpp"
#include "engine/checkpoint/unfinished.hpp"
#include "engine/checkpoint/weights.hpp"

namespace plait::checkpoint {

namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr char kModelStem[] = "model", kOptimizerStem[] = "optimizer", kShareStem[] = "share";
constexpr char kTensorsEnd[] = ".safetensors";

std::string folder_name(int64_t step, int64_t revision) {
  std::string name = strf("step-%010lld", static_cast<long long>(step));
  if (revision > 1) name += strf(".%lld", static_cast<long long>(revision));
  return name;
}

bool parse_number(std::string_view text, int64_t* out) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return problem == std::errc() && end == text.data() + text.size() && *out >= 0 &&
         text.front() != '-';
}

void remove_quietly(FileSystem& files, const std::string& path, Log& log) {
  try {
    files.remove_all(path);
  } catch (const Error& e) {
    log.warn("[checkpoint] leftover " + path + " could not be removed: " + e.text());
  }
}

}  // namespace

uint64_t bytes_of(std::span<const SaveTensor> tensors) {
  uint64_t sum = 0;
  for (const SaveTensor& t : tensors) {
    uint64_t bytes = dtype_bytes(t.dtype);
    for (const int64_t extent : t.extent.empty() ? t.shape : t.extent)
      bytes *= static_cast<uint64_t>(std::max<int64_t>(extent, 0));
    sum += bytes;
  }
  return sum;
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view name) {
  if (!starts_with(name, kStepPrefix)) return std::nullopt;
  std::string_view digits = name.substr(kStepPrefix.size());
  CheckpointName parsed;
  if (const size_t dot = digits.find('.'); dot != std::string_view::npos) {
    if (digits.size() == dot + 1 || !parse_number(digits.substr(dot + 1), &parsed.revision))
      return std::nullopt;
    digits = digits.substr(0, dot);
  }
  if (digits.empty() || !parse_number(digits, &parsed.step)) return std::nullopt;
  parsed.name = std::string(name);
  // Only the canonical spelling: otherwise "step-1" and "step-0000000001" could both exist.
  if (folder_name(parsed.step, parsed.revision) != name) return std::nullopt;
  return parsed;
}

std::string unique_id() {
  const uint64_t words[] = {monotonic_ns(), static_cast<uint64_t>(getpid()),
                            reinterpret_cast<uintptr_t>(&words)};
  return hex64(hash64(words, sizeof words));
}

CheckpointWriter::CheckpointWriter(FileSystem& files, std::string folder, int keep, Log& log,
                                   int keep_states)
    : files_(files), folder_(std::move(folder)), keep_(keep), keep_states_(keep_states), log_(log) {
  if (!files_.is_folder(folder_)) {
    files_.make_folders(folder_);
    files_.sync_folder(folder_of(folder_));
  }
  clean();
}

void CheckpointWriter::clean() {
  for (const std::string& name : files_.list(folder_)) {
    if (!starts_with(name, kUnfinished) && !starts_with(name, ".trash-") &&
        !starts_with(name, "latest.tmp-") && !starts_with(name, "best.tmp-"))
      continue;
    log_.info("[checkpoint] removing " + name + ", left by an interrupted save");
    remove_quietly(files_, join_path(folder_, name), log_);
  }
}

namespace {

std::string share_file(const char* stem, int32_t rank, int32_t ranks, const char* end) {
  if (ranks == 1) return std::string(stem) + end;
  return strf("%s-%05d-of-%05d%s", stem, rank + 1, ranks, end);
}

// "fc1.weight", or "fc1.weight[0:60,0:784]" of a block.
std::string key_of(const SaveTensor& t) {
  if (t.extent.empty() || t.extent == t.shape) return t.name;
  std::string key = t.name + "[";
  for (size_t d = 0; d < t.extent.size(); ++d)
    key += (d ? "," : "") + std::to_string(t.offset[d]) + ":" +
           std::to_string(t.offset[d] + t.extent[d]);
  return key + "]";
}

// Writes one safetensors file and adds it to the manifest.
void write_group(FileSystem& files, const std::string& folder, const std::string& name,
                 std::span<const SaveTensor> tensors, bool optimizer, bool needed,
                 Manifest* manifest) {
  std::vector<TensorSource> group;
  std::vector<const SaveTensor*> of;
  for (const SaveTensor& t : tensors) {
    if (t.optimizer != optimizer) continue;
    group.push_back(
        {key_of(t), t.dtype, t.extent.empty() ? t.shape : t.extent, t.data, {}, t.next});
    of.push_back(&t);
  }
  if (!needed && group.empty()) return;
  const WrittenFile written = write_safetensors(files, join_path(folder, name), group);
  manifest->files.push_back({name, written.size, written.hash});
  for (size_t i = 0; i < group.size(); ++i) {
    const SaveTensor& t = *of[i];
    SliceRecord slice{name, group[i].name,
                      t.offset.empty() ? std::vector<int64_t>(t.shape.size(), 0) : t.offset,
                      group[i].shape, written.tensors[i]};
    manifest->tensors.push_back({t.name, t.dtype, t.shape, {std::move(slice)}});
  }
}

void write_text(FileSystem& files, const std::string& path, const std::string& text) {
  const auto file = files.open(path, OpenMode::kCreate);
  file->write(text);
  file->sync();
  file->close();
}

// Merges slices of one tensor from several ranks into one record.
void merge(std::vector<TensorRecord>& tensors) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const TensorRecord& a, const TensorRecord& b) { return a.name < b.name; });
  size_t n = 0;
  for (TensorRecord& t : tensors) {
    if (n == 0 || tensors[n - 1].name != t.name) {
      if (&tensors[n] != &t) tensors[n] = std::move(t);
      ++n;
      continue;
    }
    TensorRecord& whole = tensors[n - 1];
    if (t.slices[0].extent == t.shape || whole.slices[0].extent == whole.shape)
      fail_invalid("[checkpoint] tensor '" + printable(t.name) + "' is given twice");
    if (whole.dtype != t.dtype || whole.shape != t.shape)
      fail_invalid("[checkpoint] tensor '" + printable(t.name) +
                   "' is given with two types or shapes");
    for (SliceRecord& slice : t.slices) whole.slices.push_back(std::move(slice));
  }
  tensors.resize(n);
}

// Writes a rank's files; returns the manifest of their content.
Manifest write_files(FileSystem& files, const std::string& folder, int32_t rank, int32_t ranks,
                     std::span<const SaveTensor> tensors) {
  Manifest share;
  write_group(files, folder, share_file(kModelStem, rank, ranks, kTensorsEnd), tensors, false,
              ranks == 1, &share);
  write_group(files, folder, share_file(kOptimizerStem, rank, ranks, kTensorsEnd), tensors, true,
              false, &share);
  return share;
}

// One that may be the newest or the best must not be taken for a damaged one, which goes first.
void expect_known(const std::vector<Commit>& commits, const std::string& folder) {
  for (const Commit& c : commits)
    if (!c.refused.empty())
      fail(PLAIT_ERR_IO, "[checkpoint] '" + join_path(folder, c.name) + "' could not be read (" +
                             c.refused + ")");
}

}  // namespace

void discard_shard(FileSystem& files, const std::string& folder, int32_t rank,
                   int32_t ranks) noexcept {
  for (const char* stem : {kModelStem, kOptimizerStem, kShareStem}) try {
      const char* end = stem == kShareStem ? ".json" : kTensorsEnd;
      const std::string path = join_path(folder, share_file(stem, rank, ranks, end));
      if (files.is_file(path)) files.remove(path);
    } catch (...) {
      // Rank 0 removes the folder.
    }
}

void write_shard(FileSystem& files, const std::string& folder, int32_t rank, int32_t ranks,
                 std::span<const SaveTensor> tensors) {
  const Manifest share = write_files(files, folder, rank, ranks, tensors);
  write_text(files, join_path(folder, share_file(kShareStem, rank, ranks, ".json")),
             manifest_text(share));
}

CheckpointName CheckpointWriter::next_name(const RunState& state) const {
  int64_t revision = 1;
  for (const CheckpointName& c : checkpoint_names(files_, folder_))
    if (c.step == state.step) revision = std::max(revision, c.revision + 1);
  return {folder_name(state.step, revision), state.step, revision};
}

std::string CheckpointWriter::begin(const RunState& state) {
  if (state.step < 0)
    fail_invalid(
        strf("[checkpoint] step %lld, expected 0 or more", static_cast<long long>(state.step)));
  std::string folder =
      join_path(folder_, std::string(kUnfinished) + std::to_string(state.step) + "-" + unique_id());
  files_.make_folder(folder);
  return folder;
}

void CheckpointWriter::discard(const std::string& folder) noexcept {
  try {
    remove_quietly(files_, folder, log_);
  } catch (...) {
    // The next writer removes it.
  }
}

void CheckpointWriter::write_manifest(const RunState& state, const std::string& folder,
                                      int32_t ranks) {
  std::vector<Manifest> shards;
  for (int32_t r = 0; r < ranks; ++r) {
    const std::string path = join_path(folder, share_file(kShareStem, r, ranks, ".json"));
    shards.push_back(parse_shard(files_.read_all(path, kMaxManifestBytes), path));
    files_.remove(path);
  }
  write_manifest(state, folder, std::move(shards));
}

void CheckpointWriter::write_manifest(const RunState& state, const std::string& folder,
                                      std::vector<Manifest> shards) {
  if (last_commit_ < 0) {
    // Numbers need not follow each other: room for that of a manifest that cannot be read now.
    constexpr int64_t kRoom = 1 << 20;
    last_commit_ = 0;
    int64_t room = 0;
    for (const Commit& c : read_commits(files_, folder_)) {
      last_commit_ = std::max(last_commit_, c.number);
      if (!c.refused.empty()) room = kRoom;
    }
    last_commit_ += room;
  }
  Manifest manifest;
  manifest.state = state;
  manifest.commit = last_commit_ + 1;
  for (Manifest& share : shards) {
    for (FileRecord& f : share.files) manifest.files.push_back(std::move(f));
    for (TensorRecord& t : share.tensors) manifest.tensors.push_back(std::move(t));
  }
  merge(manifest.tensors);
  for (const TensorRecord& t : manifest.tensors)
    if (const char* fault = slices_error(t))
      fail_invalid("[checkpoint] the slices of tensor '" + printable(t.name) +
                   "' that the ranks wrote must be " + fault);
  // Other programs know no manifest: where files hold whole tensors, an index lets them read these.
  if (!files_.is_file(join_path(folder, kWeightsName)))
    if (const std::string index = checkpoint_index_text(manifest); !index.empty())
      write_text(files_, join_path(folder, kWeightsIndexName), index);
  if (!state.experiment.empty())
    write_text(files_, join_path(folder, kExperimentName), state.experiment);
  write_text(files_, join_path(folder, kManifestName), manifest_text(manifest));
  files_.sync_folder(folder);
}

std::string CheckpointWriter::publish(const RunState& state, const std::string& folder,
                                      const Check& may_commit) {
  const CheckpointName committed = next_name(state);
  if (fence_) fence_();
  if (may_commit) may_commit();
  files_.rename(folder, join_path(folder_, committed.name));
  ++last_commit_;
  files_.sync_folder(folder_);
  // The checkpoint is committed: errors from here on are only warnings.
  if (is_ours() && write_hints(committed, state)) retain(committed);
  return join_path(folder_, committed.name);
}

// False once another process writes to the folder, whose checkpoints are not this one's to change.
bool CheckpointWriter::is_ours() const noexcept {
  try {
    if (fence_) fence_();
    return true;
  } catch (const std::exception& e) {
    log_.warn("[checkpoint] older checkpoints in " + folder_ + " stay as they are: " + e.what());
    return false;
  }
}

// "" where there is none. What is known holds until another lineage begins.
std::string CheckpointWriter::find_best(const CheckpointName& committed,
                                        const RunState& state) const {
  if (state.best_step < 0) return "";
  if (state.best_step == committed.step) return committed.name;
  const auto known = parse_checkpoint_name(best_);
  if (known && known->step == state.best_step && best_lineage_ == state.lineage) return best_;
  std::vector<Commit> commits = read_commits(files_, folder_);
  expect_known(commits, folder_);
  sort_for_retention(commits);
  for (const Commit& c : commits)
    if (c.step == state.best_step && c.readable && !c.stale) return c.name;
  return "";
}

// Whether the best one is known, so that it is not removed as an old one.
bool CheckpointWriter::write_hints(const CheckpointName& committed, const RunState& state) {
  bool known = false;
  const auto warning = [&](const char* hint, const auto& write) {
    try {
      write(join_path(folder_, hint));
    } catch (const std::exception& e) {
      log_.warn(std::string("[checkpoint] the hint '") + hint + "' in " + folder_ +
                " could not be replaced: " + e.what());
    }
  };
  warning(kLatest, [&](const std::string& path) { files_.replace(path, committed.name + "\n"); });
  warning(kBest, [&](const std::string& path) {
    best_ = find_best(committed, state);
    best_lineage_ = state.lineage;
    known = true;
    if (best_ == best_written_ && !best_.empty()) return;
    if (!best_.empty())
      files_.replace(path, best_ + "\n");
    else if (files_.is_file(path))
      files_.remove(path);
    best_written_ = best_;
  });
  return known;
}

std::string CheckpointWriter::save(const RunState& state, std::span<const SaveTensor> tensors) {
  const std::string path = join_path(folder_, next_name(state).name);
  std::string folder;
  try {
    folder = begin(state);
    write_manifest(state, folder, {write_files(files_, folder, 0, 1, tensors)});
    return publish(state, folder);
  } catch (...) {
    if (!folder.empty() && files_.is_folder(folder)) discard(folder);
    rethrow_with("[checkpoint] step " + std::to_string(state.step) + " could not be saved to " +
                 path + " (needs " + human_bytes(bytes_of(tensors)) + ")");
  }
}

void CheckpointWriter::retain(const CheckpointName& committed) {
  if (keep_ <= 0 && keep_states_ <= 0) return;
  try {
    std::vector<Commit> commits = read_commits(files_, folder_);
    expect_known(commits, folder_);
    sort_for_retention(commits);
    remove_old_states(committed, remove_old(committed, std::move(commits)));
  } catch (const std::exception& e) {
    log_.warn("[checkpoint] old checkpoints in " + folder_ + " could not be removed: " + e.what());
  }
}

// Returns those that are kept, in the same order.
std::vector<Commit> CheckpointWriter::remove_old(const CheckpointName& committed,
                                                 std::vector<Commit> commits) {
  if (keep_ <= 0) return commits;
  int left = keep_ - 1;
  std::vector<Commit> kept;
  std::vector<std::string> trash;
  for (Commit& c : commits) {
    if (c.name == committed.name || (c.step != committed.step && left-- > 0) || c.name == best_) {
      kept.push_back(std::move(c));
      continue;
    }
    trash.push_back(join_path(folder_, ".trash-" + c.name + "-" + unique_id()));
    files_.rename(join_path(folder_, c.name), trash.back());
  }
  // The renames must be durable before any content is deleted; else a power cut could restore the
  // name of a checkpoint without its content.
  if (!trash.empty()) files_.sync_folder(folder_);
  for (const std::string& path : trash) files_.remove_all(path);
  return kept;
}

// One that is damaged, or of a newer format, does not keep the states of the others.
void CheckpointWriter::remove_old_states(const CheckpointName& committed,
                                         const std::vector<Commit>& kept) {
  int left = keep_states_ - 1;
  for (const Commit& c : kept) {
    if (c.name == committed.name || !c.readable) continue;
    const bool keeps = keep_states_ <= 0 || left-- > 0;
    // Where they are left out already, an interrupted call may have left files.
    if (keeps && !c.states_left_out) continue;
    try {
      const std::string path = join_path(folder_, c.name);
      keeps ? remove_leftover_states(files_, path) : remove_states(files_, path);
    } catch (const std::exception& e) {
      log_.warn("[checkpoint] the optimizer's states of " + join_path(folder_, c.name) +
                " could not be removed: " + e.what());
    }
  }
}

}  // namespace plait::checkpoint

#include "engine/checkpoint/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/order.hpp"

namespace plait::checkpoint {

namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kLatest[] = "latest";

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

uint64_t bytes_of(const SaveTensor& t) {
  uint64_t bytes = dtype_bytes(t.dtype);
  for (const int64_t extent : t.shape) bytes *= static_cast<uint64_t>(std::max<int64_t>(extent, 0));
  return bytes;
}

}  // namespace

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
  // Only the spelling we write: "step-1" and "step-0000000001" may not both exist.
  if (folder_name(parsed.step, parsed.revision) != name) return std::nullopt;
  return parsed;
}

std::string unique_id() {
  const uint64_t words[] = {monotonic_ns(), static_cast<uint64_t>(getpid()),
                            reinterpret_cast<uintptr_t>(&words)};
  return hex64(hash64(words, sizeof words));
}

Writer::Writer(FileSystem& files, std::string folder, int keep, Log& log)
    : files_(files), folder_(std::move(folder)), keep_(keep), log_(log) {
  if (!files_.is_folder(folder_)) {
    files_.make_folders(folder_);
    files_.sync_folder(folder_of(folder_));
  }
  clean();
}

void Writer::clean() {
  for (const std::string& name : files_.list(folder_)) {
    if (!starts_with(name, ".tmp-") && !starts_with(name, ".trash-") &&
        !starts_with(name, "latest.tmp-"))
      continue;
    log_.info("[checkpoint] removing " + name + ", left by an interrupted save");
    remove_quietly(files_, join_path(folder_, name), log_);
  }
}

namespace {

// Writes one safetensors file and adds it to the manifest.
void write_group(FileSystem& files, const std::string& folder, const char* name,
                 std::span<const SaveTensor> tensors, bool optimizer, Manifest* manifest) {
  std::vector<TensorSource> group;
  for (const SaveTensor& t : tensors)
    if (t.optimizer == optimizer) group.push_back({t.name, t.dtype, t.shape, t.data});
  if (optimizer && group.empty()) return;
  const WrittenFile written = write_safetensors(files, join_path(folder, name), group);
  manifest->files.push_back({name, written.size, written.hash});
  for (size_t i = 0; i < group.size(); ++i) {
    SliceRecord slice{name, group[i].name, std::vector<int64_t>(group[i].shape.size(), 0),
                      group[i].shape, written.tensors[i]};
    manifest->tensors.push_back(
        {group[i].name, group[i].dtype, group[i].shape, {std::move(slice)}});
  }
}

void check_unique(const std::vector<TensorRecord>& sorted) {
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].name == sorted[i - 1].name)
      fail_invalid("[checkpoint] tensor '" + printable(sorted[i].name) + "' is given twice");
}

void write_contents(FileSystem& files, const std::string& folder, const State& state,
                    int64_t commit, std::span<const SaveTensor> tensors) {
  Manifest manifest;
  manifest.state = state;
  manifest.commit = commit;
  write_group(files, folder, kModelFile, tensors, false, &manifest);
  write_group(files, folder, kOptimizerFile, tensors, true, &manifest);
  std::sort(manifest.tensors.begin(), manifest.tensors.end(),
            [](const TensorRecord& a, const TensorRecord& b) { return a.name < b.name; });
  check_unique(manifest.tensors);
  const auto file = files.open(join_path(folder, kManifestName), OpenMode::kCreate);
  file->write(manifest_text(manifest));
  file->sync();
  file->close();
}

}  // namespace

std::string Writer::save(const State& state, std::span<const SaveTensor> tensors) {
  if (state.step < 0)
    fail_invalid(
        strf("[checkpoint] step %lld, expected 0 or more", static_cast<long long>(state.step)));
  int64_t revision = 1;
  if (last_commit_ < 0)
    for (const Commit& c : read_commits(files_, folder_))
      last_commit_ = std::max(last_commit_, c.number);
  last_commit_ = std::max<int64_t>(last_commit_, 0);
  for (const CheckpointName& c : checkpoint_names(files_, folder_))
    if (c.step == state.step) revision = std::max(revision, c.revision + 1);
  const CheckpointName committed{folder_name(state.step, revision), state.step, revision};
  const std::string temporary =
      join_path(folder_, strf(".tmp-%lld-", static_cast<long long>(state.step)) + unique_id());
  std::string path = join_path(folder_, committed.name);
  bool renamed = false;
  try {
    files_.make_folder(temporary);
    write_contents(files_, temporary, state, last_commit_ + 1, tensors);
    files_.sync_folder(temporary);
    files_.rename(temporary, path);
    renamed = true;
    ++last_commit_;
    files_.sync_folder(folder_);
  } catch (...) {
    uint64_t needed = 0;
    for (const SaveTensor& t : tensors) needed += bytes_of(t);
    if (!renamed) remove_quietly(files_, temporary, log_);
    rethrow_with("[checkpoint] step " + std::to_string(state.step) + " could not be saved to " +
                 path + " (needs " + human_bytes(needed) + ")");
  }
  // Committed: what follows is comfort, so it can only warn.
  try {
    files_.replace(join_path(folder_, kLatest), committed.name + "\n");
  } catch (const std::exception& e) {
    log_.warn("[checkpoint] the hint 'latest' in " + folder_ +
              " could not be replaced: " + e.what());
  }
  retain(committed);
  return path;
}

void Writer::retain(const CheckpointName& committed) {
  if (keep_ <= 0) return;
  try {
    int left = keep_ - 1;
    std::vector<std::string> trash;
    std::vector<Commit> commits = read_commits(files_, folder_);
    sort_most_wanted_first(commits);
    for (const Commit& c : commits) {
      if (c.name == committed.name || (c.step != committed.step && left-- > 0)) continue;
      trash.push_back(join_path(folder_, ".trash-" + c.name + "-" + unique_id()));
      files_.rename(join_path(folder_, c.name), trash.back());
    }
    // The renames must last before anything inside goes: else a power cut could bring back a gutted checkpoint.
    if (!trash.empty()) files_.sync_folder(folder_);
    for (const std::string& path : trash) files_.remove_all(path);
  } catch (const std::exception& e) {
    log_.warn("[checkpoint] old checkpoints in " + folder_ + " could not be removed: " + e.what());
  }
}

RunLock::RunLock(FileSystem& files, const std::string& run_folder) {
  const std::string path = join_path(run_folder, "lock");
  try {
    lock_ = files.lock(path);
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_STATE) throw;
    std::string holder;
    try {
      holder = std::string(trim(files.read_all(path, 1024)));
    } catch (const Error&) {
      // The lock itself is what counts.
    }
    fail(PLAIT_ERR_STATE, "[checkpoint] the run directory " + run_folder + " is in use by " +
                              (holder.empty() ? "another process" : printable(holder)) +
                              "; stop that run, or start this one in a directory of its own");
  }
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  const auto file = files.open(path, OpenMode::kReplace);
  file->write(strf("host %s, process %lld\n", host, static_cast<long long>(getpid())));
  file->close();
}

}  // namespace plait::checkpoint

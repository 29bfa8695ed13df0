#include "bindings/cli/runs/newest_checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

// All of a text; nullopt: it is no whole number.
std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || number < 0) return std::nullopt;
  return number;
}

// Of "step-0000001000" and "step-0000001000.2": the step, and which commit of that step it is.
std::optional<std::pair<int64_t, int64_t>> step_of(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const size_t dot = name.find('.');
  const auto step = whole_number(name.substr(0, dot));
  const auto revision =
      dot == name.npos ? std::optional<int64_t>(1) : whole_number(name.substr(dot + 1));
  if (!step || !revision) return std::nullopt;
  return std::pair(*step, *revision);
}

// Counts the commits of the folder from 1; 0: the engine that wrote it did not count, or the file
// is damaged. It stands before the lists of files and tensors, which may be long: lines, as the
// engine writes and reads them, end the search there.
int64_t commit_of(const std::string& manifest) {
  constexpr std::string_view kCommit = "    \"commit\": ";
  std::ifstream file(manifest);
  bool in_lineage = false;
  for (std::string line; std::getline(file, line) && !line.starts_with("  \"files\":");) {
    if (line.starts_with("  \"lineage\":")) in_lineage = true;
    if (!in_lineage || !line.starts_with(kCommit)) continue;
    if (line.ends_with(',')) line.pop_back();
    return whole_number(std::string_view(line).substr(kCommit.size())).value_or(0);
  }
  return 0;
}

}  // namespace

std::string newest_checkpoint(const std::string& run) {
  std::tuple<int64_t, int64_t, int64_t> newest;  // commit, step, revision
  std::string path;
  std::error_code error, ignored;
  for (fs::directory_iterator at(run + "/ckpt", error), end; !error && at != end;
       at.increment(error)) {
    const auto step = step_of(at->path().filename().string());
    const fs::path manifest = at->path() / "MANIFEST.json";  // the last file of a save
    if (!step || !fs::is_regular_file(manifest, ignored)) continue;
    const std::tuple order(commit_of(manifest.string()), step->first, step->second);
    if (!path.empty() && order <= newest) continue;
    newest = order;
    path = at->path().string();
  }
  return path;
}

}  // namespace plait::cli

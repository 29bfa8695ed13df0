#include "plugins/comm/shm/free_memory.hpp"

#include <dirent.h>

#include <array>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

namespace plait::comm_shm {
namespace {

// The names of the two versions of control groups.
struct Version {
  const char* folder;  // where it is mounted
  const char *limit, *used;
  std::array<const char*, 3> droppable;  // keys of memory.stat; NULL: none
};
constexpr Version kFirst = {"/sys/fs/cgroup/memory",
                            "memory.limit_in_bytes",
                            "memory.usage_in_bytes",
                            {"total_inactive_file", "total_active_file"}};
constexpr Version kSecond = {"/sys/fs/cgroup",
                             "memory.max",
                             "memory.current",
                             {"inactive_file", "active_file", "slab_reclaimable"}};

std::optional<uint64_t> number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;  // "max"
  return value;
}

// The number in the first line of a file.
std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? number(line) : std::nullopt;
}

// The number behind `key` and spaces, at the beginning of a line.
std::optional<uint64_t> number_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key) || line.size() == key.size() || line[key.size()] != ' ') continue;
    const size_t at = line.find_first_not_of(' ', key.size());
    return at == std::string::npos ? std::nullopt : number(line.substr(at));
  }
  return std::nullopt;
}

// What a group may still take; nullopt: it has no limit.
std::optional<uint64_t> left_in(const std::string& folder, const Version& names) {
  const auto limit = number_in(folder + "/" + names.limit),
             used = number_in(folder + "/" + names.used);
  if (!limit || !used) return std::nullopt;
  uint64_t droppable = 0;
  for (const char* key : names.droppable)
    if (key) droppable += number_of(folder + "/memory.stat", key).value_or(0);
  const uint64_t taken = *used > droppable ? *used - droppable : 0;
  return *limit > taken ? *limit - taken : 0;
}

// Whether a folder has folders in it; true where it cannot be read. Not with std::filesystem, which
// ends the process where memory ends.
bool has_folders(const std::string& folder) {
  struct Close {
    void operator()(DIR* d) const { ::closedir(d); }
  };
  const std::unique_ptr<DIR, Close> entries(::opendir(folder.c_str()));
  if (!entries) return true;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    const bool is_folder = entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN;
    if (is_folder && name != "." && name != "..") return true;
  }
  return false;
}

// How many of that many ranks can be in a group, those below it included.
uint64_t most_ranks_in(const std::string& folder, uint64_t ranks) {
  if (has_folders(folder)) return ranks;
  std::ifstream processes(folder + "/cgroup.procs");
  uint64_t n = 0;
  for (std::string line; n < ranks && std::getline(processes, line);) ++n;
  return n == 0 ? ranks : n;
}

// Of the group at `path` and all above it: the least. A container may see the path of the host, and
// its own group at the top.
std::optional<uint64_t> left_below(const std::string& root, std::string path, const Version& names,
                                   uint64_t ranks) {
  std::optional<uint64_t> least;
  for (;;) {
    if (path == "/") path.clear();
    const std::string folder = root + names.folder + path;
    auto left = left_in(folder, names);
    if (left && ranks > 1) {
      const uint64_t inside = most_ranks_in(folder, ranks);
      if (inside < ranks) *left = *left > UINT64_MAX / ranks ? UINT64_MAX : *left * ranks / inside;
    }
    if (left && (!least || *left < *least)) least = left;
    if (path.empty()) return least;
    path.erase(path.rfind('/'));
  }
}

}  // namespace

FreeMemory free_memory(uint32_t ranks, const std::string& root) {
  FreeMemory found;
  if (const auto kib = number_of(root + "/proc/meminfo", "MemAvailable:"))
    found.bytes = *kib * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/path", "0::/path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos || line.size() == second + 1 || line[second + 1] != '/')
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::istringstream names(controllers);
    bool first_version = false;
    for (std::string name; std::getline(names, name, ',');)
      first_version = first_version || name == "memory";
    if (!first_version && !controllers.empty()) continue;
    const auto left =
        left_below(root, line.substr(second + 1), first_version ? kFirst : kSecond, ranks);
    if (left && *left < found.bytes) found = {*left, true};
  }
  return found;
}

}  // namespace plait::comm_shm

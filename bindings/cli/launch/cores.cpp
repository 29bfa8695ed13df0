#include "bindings/cli/launch/cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <tuple>

namespace plait::cli {
namespace {

// -1 when the system does not say.
int fact_of(int core, const char* name) {
  std::ifstream in("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/" + name);
  int value = -1;
  return in >> value ? value : -1;
}

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::tuple<int, int, int>> found;  // package, core, thread
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set))
        found.emplace_back(fact_of(i, "physical_package_id"), fact_of(i, "core_id"), i);
  std::sort(found.begin(), found.end());
  std::vector<int> cores;
  for (const auto& [package, core, thread] : found) cores.push_back(thread);
  return cores;
}

std::vector<int> partition_cores(const std::vector<int>& cores, int which, int parts) {
  const size_t n = cores.size(), i = static_cast<size_t>(which), all = static_cast<size_t>(parts);
  if (n == 0) return {};
  if (n < all) return {cores[i % n]};
  const auto at = [&](size_t part) {
    return cores.begin() + static_cast<std::ptrdiff_t>(part * n / all);
  };
  return {at(i), at(i + 1)};
}

void bind_to(const std::vector<int>& cores) noexcept {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

bool bind_local_rank(int local_rank, int local_size) {
  if (local_size < 2) return false;
  cpu_set_t own, parent;
  if (sched_getaffinity(0, sizeof own, &own) != 0 ||
      sched_getaffinity(getppid(), sizeof parent, &parent) != 0 || !CPU_EQUAL(&own, &parent))
    return false;
  bind_to(partition_cores(allowed_cores(), local_rank, local_size));
  return true;
}

std::string cores_text(const std::vector<int>& cores) {
  std::vector<int> sorted = cores;
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(sorted[i]);
    if (last > i) text += "-" + std::to_string(sorted[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace plait::cli

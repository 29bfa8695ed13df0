#include "bindings/cli/machine.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace plait::cli {
namespace {

// The text after the first `separator` of the line that begins with `key`, or "".
std::string value_of(const char* file, const std::string& key, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    const size_t first = line.find_first_not_of(" \t\"", at + 1);
    const size_t last = line.find_last_not_of(" \t\"");
    return first == std::string::npos ? "" : line.substr(first, last - first + 1);
  }
  return "";
}

std::vector<std::string> features() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  constexpr const char* kAsked[] = {"sse4_2",      "avx",         "avx2",     "fma",
                                    "f16c",        "avx512f",     "avx512bw", "avx512vl",
                                    "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16"};
#else
  constexpr const char* kAsked[] = {"asimd", "sve", "sve2", "bf16", "i8mm"};
#endif
  std::string flags = value_of("/proc/cpuinfo", "flags", ':');
  if (flags.empty()) flags = value_of("/proc/cpuinfo", "Features", ':');
  std::istringstream words(flags);
  std::string all = " ";
  for (std::string word; words >> word;) all += word + " ";
  for (const char* one : kAsked)
    if (all.find(" " + std::string(one) + " ") != std::string::npos) found.emplace_back(one);
  return found;
}

}  // namespace

Machine machine() {
  Machine m;
  utsname name{};
  if (uname(&name) == 0)
    m.system = std::string(name.sysname) + " " + name.release + " " + name.machine;
  m.distribution = value_of("/etc/os-release", "PRETTY_NAME", '=');
  m.cpu = value_of("/proc/cpuinfo", "model name", ':');
  m.features = features();
  cpu_set_t set;
  m.cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  m.memory =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return m;
}

}  // namespace plait::cli

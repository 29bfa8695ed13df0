// Facts about the machine for `plait env`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait::cli {

struct Machine {
  std::string system;                 // "Linux 6.1.0 x86_64"
  std::string distribution;           // "Debian GNU/Linux 12 (bookworm)", or ""
  std::string cpu;                    // model name, or ""
  std::vector<std::string> features;  // the ones that kernels check: "avx2", "fma", ...
  int cores = 0;                      // available to this process
  uint64_t memory = 0;                // bytes installed
};
Machine machine();

}  // namespace plait::cli

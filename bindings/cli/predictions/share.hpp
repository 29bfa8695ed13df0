// Which samples each replica predicts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// The samples that each replica predicts, one share after the other; its first rank keeps them.
struct Share {
  int replica = 0, replicas = 1, ranks_between = 1;
  bool keeps = true;

  explicit Share(const Json& topology) {
    const int rank = topology.at("rank"), data = topology.at("data"),
              tensor = topology.at("tensor");
    replica = rank / tensor % data;
    replicas = data;
    ranks_between = tensor;
    keeps = rank / tensor / data == 0 && rank % tensor == 0;
  }
  int64_t begin(int64_t n, int of) const {
    return n / replicas * of + std::min<int64_t>(of, n % replicas);
  }
  int64_t size(int64_t n, int of) const { return begin(n, of + 1) - begin(n, of); }
  int first_rank(int of) const { return of * ranks_between; }
};

}  // namespace plait::cli

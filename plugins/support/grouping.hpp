// Where each row goes when rows are sorted into groups: a stable counting sort, which all kernels
// of the op group_rows share. N tokens, k groups of each, E groups.
#pragma once

#include <cstdint>

#include "kit/ops/grouped.hpp"
#include "plugins/support/elements.hpp"

namespace plait::support {

// Writes place (N·k) and offsets (E+1). next: E+1 numbers of workspace.
inline void sort_into_groups(const kit::GroupRows& g, uint32_t index_type, const void* index,
                             int32_t* place, int32_t* offsets, int32_t* next) {
  const int64_t rows = g.tokens * g.each;
  const auto group = [&](int64_t i) {
    const int64_t e = read_index(index_type, index, i);
    return e >= 0 && e < g.groups ? e : g.groups;
  };
  for (int64_t e = 0; e <= g.groups; ++e) next[e] = 0;
  for (int64_t i = 0; i < rows; ++i) ++next[group(i)];
  int32_t begin = 0;
  for (int64_t e = 0; e <= g.groups; ++e) {
    const int32_t count = next[e];
    next[e] = offsets[e] = begin;
    begin += count;
  }
  for (int64_t i = 0; i < rows; ++i) place[i] = next[group(i)]++;
}

}  // namespace plait::support

// Rows by index (embeddings), their gradient, and one-hot rows. V rows of a table, I.. indices, C..
// channels.
//
// Of a part of a table gather makes zeros for the rows of other parts, and scatter_add leaves them
// out.
#pragma once

#include "kit/ops/rows.hpp"

namespace plait::kit {

inline constexpr plait_option kGatherPart[] = {
    at_least(int_option("first", "0", "first row of the part"), 0),
    at_least(int_option("total", "-1", "rows of all parts; -1: this is no part"), -1),
};
inline constexpr plait_option kScatterAddAttrs[] = {
    at_least(int_option("rows", nullptr, "rows of the result"), 0),
};
inline constexpr plait_option kScatterAddPart[] = {
    at_least(int_option("first", "0", "first row of the part"), 0),
    bool_option("accumulate", "false", "y = the last input + the sums; they may share memory"),
};
inline constexpr plait_option kOneHotAttrs[] = {
    at_least(int_option("depth", nullptr, "classes, the extent of the new last axis"), 0),
};

struct Gather {
  int64_t rows = 0, width = 0, count = 0;  // V rows of the table, elements per row, indices
  uint32_t index = 0;                      // type of the indices
  int64_t first = 0, total = 0;            // of a part of a table: its first row, rows of all parts
  std::vector<int64_t> out;                // dims of the output
  bool accumulate = false;                 // of scatter_add: input 2 (rows, C..) is added to
  bool known(int64_t id) const { return id >= 0 && id < total; }
};
Gather parse_gather(const plait_op_desc& d);
Gather parse_scatter_add(const plait_op_desc& d);
Gather parse_one_hot(const plait_op_desc& d);  // width: depth; rows: unused

}  // namespace plait::kit

// A program as text, and the program of one of two ranks that it becomes.
#pragma once

#include "engine/program/shard.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

namespace plait::program {

// The lines that make the whole (8, 2 * columns) of value `part`, a shard along its columns, with
// the values behind it: the shards of both ranks lie below each other, and are put side by side.
inline std::string gathered_columns(ValueId part, int64_t columns, const std::string& scope,
                                    int64_t id = 0) {
  const auto value = [&](ValueId behind) { return "%" + std::to_string(part + behind); };
  const std::string c = std::to_string(columns), number = std::to_string(id),
                    whole = std::to_string(2 * columns), end = " @" + scope + "\n";
  return value(1) + " f32 (16, " + c + ") = collective_start(" + value(0) +
         ") {kind: 4, ranks: 2, id: " + number + "}" + end +  //
         value(2) + " f32 (16, " + c + ") in " + value(1) + " = collective_done(" + value(1) +
         ", " + value(0) + ") {id: " + number + "}" + end +  //
         value(3) + " f32 (2, 8, " + c + ") = reshape(" + value(2) + ") {shape: [2, 8, " + c +
         "]}" + end +  //
         value(4) + " f32 (8, 2, " + c + ") = transpose(" + value(3) + ") {perm: [1, 0, 2]}" + end +
         value(5) + " f32 (8, " + whole + ") = reshape(" + value(4) + ") {shape: [8, " + whole +
         "]}" + end;
}

struct ShardFixture : TextFixture {
  std::vector<std::string> collectives;
  Placement wanted_form = kReplicated;
  // shards: values that lie in parts, with their dimension. Compares the program of rank 1 of 2.
  void shards(const std::string& lines, const std::map<ValueId, int32_t>& shards, ValueId wanted,
              const std::string& after, bool sequence = false) {
    read(lines);
    collectives.clear();
    std::map<ValueId, Placements> sharded;
    for (const auto& [v, dim] : shards) sharded[v] = {shard_along(dim)};
    std::vector<ValueId> made;
    g = std::move(*shard_graph(
        g, {{"tensor", 2, 1, sequence}}, sharded, {{wanted, {wanted_form}}},
        [this](size_t, const std::string& name, uint32_t, uint32_t, uint32_t, uint64_t) {
          collectives.push_back(name);
          return static_cast<int32_t>(collectives.size() - 1);
        },
        made));
    expect(after);
    CHECK(made.size() == 1);
    CHECK_FALSE(find_fault(g));
  }
};

}  // namespace plait::program

// A program as text, and the program of one of two ranks that it becomes.
#pragma once

#include "engine/program/shard.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

namespace plait::program {

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

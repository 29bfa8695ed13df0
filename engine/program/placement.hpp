// How a value lies on the ranks along one axis of the mesh: replicated, sharded along a dimension,
// or partial (Xu et al. 2021, GSPMD).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait::program {

// Of rows that are sorted into groups (OpDef::grouping): the groups whose rows a rank has, by the
// value that says where groups begin.
struct GroupShare {
  uint32_t offsets = 0;  // 0: none; a value of the program that is sharded
  int64_t first = 0, count = 0;
  bool operator==(const GroupShare&) const = default;
};

struct Placement {
  enum class Kind : uint8_t {
    kReplicated,  // every rank has all of it
    kShard,       // rank t of T has the t-th of T equal parts along `dim`
    kPartial,     // every rank has a term; `reduction` over the terms of all ranks makes the value
  };
  Kind kind = Kind::kReplicated;
  int32_t dim = -1;        // of kShard; else -1
  uint32_t reduction = 0;  // of kPartial: PLAIT_COMM_SUM or PLAIT_COMM_MAX; else 0
  // Of a partial sum of rows in groups: each row is a term of one rank's, which may compute with it
  // as with the value itself. What the others have in its place is 0 where they are added up.
  GroupShare groups = {};

  bool is_shard() const { return kind == Kind::kShard; }
  bool is_partial() const { return kind == Kind::kPartial; }
  bool is_in_groups() const { return groups.offsets != 0; }
  bool is_replicated() const { return kind == Kind::kReplicated; }
  bool operator==(const Placement&) const = default;
};

inline constexpr Placement kReplicated{};
// Negative: replicated.
constexpr Placement shard_along(int32_t dim) {
  return dim < 0 ? Placement{} : Placement{Placement::Kind::kShard, dim, 0};
}
constexpr Placement partial(uint32_t reduction) {
  return {Placement::Kind::kPartial, -1, reduction};
}

constexpr Placement rows_of_groups(Placement sum, GroupShare groups) {
  sum.groups = groups;
  return sum;
}

// The first of them that is a shard; replicated where none is.
inline Placement first_shard(const std::vector<Placement>& all) {
  for (const Placement p : all)
    if (p.is_shard()) return p;
  return kReplicated;
}

// What one op needs and makes on the ranks along one axis.
struct Sharding {
  std::vector<Placement> in;  // never partial
  std::vector<Placement> out;
  bool keeps_zeros = false;  // zeros in the padding of the inputs give zeros in that of the results
};

// One axis of the mesh along which a program is sharded: a row of the table of axes.
struct MeshAxis {
  std::string name;   // "tensor", for messages
  int64_t ranks = 1;  // T
  int64_t rank = 0;   // t: this rank's place among them
  // Sequence parallelism (Korthikanti et al. 2022): a partial sum whose reader does not need all of
  // it becomes a shard of its rows by a reduce-scatter, and the ops that read it work on these
  // rows.
  bool sequence = false;
};

}  // namespace plait::program

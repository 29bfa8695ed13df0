// Sharding as a rewrite: a program of whole values becomes the program of one rank of a mesh.
//
// Parameters say along which dimension they are sharded (Megatron-LM, Shoeybi et al. 2019; the
// propagation as in GSPMD, Xu et al. 2021). From there every op's rule says which shards of its
// inputs give a shard of its result: products along sharded columns need nothing, sums over a
// sharded dimension are partial, and an op without a rule gets replicated values. A partial sum is
// reduced when it is read, into the form that its reader needs: by an all-reduce or, where a shard
// will do, by a reduce-scatter. As the backward pass is in the program, its collectives follow in
// the same way.
//
// Where the extent V of a sharded dimension is no multiple of T, shards have ceil(V / T) indices,
// and zeros lie behind the last one, whatever is done to it. Ops that would not leave zeros there
// get replicated values.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/program/graph.hpp"
#include "engine/program/placement.hpp"

namespace plait::program {

// An op of the whole program that its definition writes for one rank.
struct ShardContext {
  const Graph& from;
  const Op& op;
  Graph& to;
  // How each input lies; never partial, but rows in groups for an op that has to do with groups.
  const std::vector<Placement>& have;
  int64_t ranks = 1, rank = 0;  // T, t
  // The input in that form; not partial.
  std::function<ValueId(size_t input, Placement)> input;
  // An input that lies in groups, as it is; with zeros in the rows of others' groups if asked for.
  std::function<ValueId(size_t input, bool zeros)> rows;
  // Reduces the terms of all ranks in place. For values that the definition makes and uses itself.
  std::function<ValueId(ValueId term, uint32_t reduction)> all_reduce;
  std::vector<ValueId> out;              // to be set
  std::vector<Placement> out_placement;  // to be set
};

// The attributes of an op over this rank's part of V ids, ceil(V / T) of them: `first` and `total`.
Attrs attrs_of_rank(const ShardContext& u, int64_t vocabulary);

// How a value lies on each axis of the mesh, in the order of the table.
using Placements = std::vector<Placement>;

// A value that is needed afterwards, and in which form. None is partial.
struct RequestedValue {
  ValueId value = 0;  // 0: none
  Placements placements;
};

// Makes a collective among the ranks of axis `axis` known; returns its id. n: elements as
// plait/comm.h counts them.
using AddShardCollective =
    std::function<int32_t(size_t axis, const std::string& name, uint32_t kind, uint32_t reduction,
                          uint32_t dtype, uint64_t n)>;

// The program of one rank. The mesh is taken axis by axis: the program of a coordinate along the
// first axis is the whole program for the second one. sharded: persistent values of g that lie in
// shards, each in the memory of its own; all others are replicated. Sets `made` to what the
// requested values are in the program returned. g has no value bound to a place and none assigned.
std::unique_ptr<Graph> shard_graph(const Graph& g, const std::vector<MeshAxis>& mesh,
                                   const std::map<ValueId, Placements>& sharded,
                                   const std::vector<RequestedValue>& requested,
                                   const AddShardCollective& add, std::vector<ValueId>& made);

}  // namespace plait::program

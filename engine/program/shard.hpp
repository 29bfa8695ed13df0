// Tensor parallelism as a rewrite: a program of whole values becomes the program of one of T ranks
// that share some of them.
//
// Parameters say along which dimension they are shared (Megatron-LM, Shoeybi et al. 2019; the
// propagation as in GSPMD, Xu et al. 2021). From there every op's rule says which parts of its
// inputs give a part of its result: products along shared columns need nothing, sums over a shared
// dimension are completed by an all-reduce, and what has no rule gets whole values. As the backward
// pass is in the program, its collectives follow in the same way.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// Along which dimension a value is shared, in equal parts by rank; kReplicated: every rank has all
// of it. Where the extent V is no multiple of T, parts have ceil(V / T) indices, and what lies
// behind the last one is padding: zeros, whatever is done to it. Ops that would not leave zeros
// there get whole values.
inline constexpr int32_t kReplicated = -1;

// What one op needs and makes, dimension by dimension. `reduce`: a result is a term, PLAIT_COMM_SUM
// or _MAX of all ranks' make the value; 0: it is what it is.
struct Sharding {
  std::vector<int32_t> in, out;
  std::vector<uint32_t> reduce;  // of each result
  bool keeps_zeros = false;  // zeros in the padding of the inputs give zeros in that of the results
};

// An op of the whole program that its rule writes for one rank.
struct ShardContext {
  const Graph& from;
  const Op& op;
  Graph& to;
  const std::vector<int32_t>& have;  // how each input lies
  int64_t ranks = 1, rank = 0;       // T, t
  std::function<ValueId(size_t input, int32_t dim)> input;
  // The sum or greatest of all ranks' terms, in their place.
  std::function<ValueId(ValueId partial, uint32_t reduction)> all_reduce;
  std::vector<ValueId> out;       // to be set
  std::vector<int32_t> out_dims;  // to be set
};

// The attributes of an op over this rank's part of V ids, ceil(V / T) of them: `first` and `total`.
Attrs attrs_of_rank(const ShardContext& u, int64_t vocabulary);

// One rank's place among those that share.
struct TensorGroup {
  int64_t ranks = 1, rank = 0;  // T, t
  // Makes a collective known; returns its id. n: elements as plait/comm.h counts them.
  std::function<int32_t(const std::string& name, uint32_t kind, uint32_t reduction, uint32_t dtype,
                        uint64_t n)>
      add;
};

// A value that is needed afterwards, and in which form.
struct RequestedValue {
  ValueId value = 0;  // 0: none
  int32_t dim = kReplicated;
};

// `shared`: persistent values of g that lie in parts, with their dimension; their places hold the
// part. Sets `made` to what the wanted values are in the program returned. g has no value bound to
// a place and none assigned.
std::unique_ptr<Graph> shard_graph(const Graph& g, const std::map<ValueId, int32_t>& sharded,
                                   const TensorGroup& tensor_group,
                                   const std::vector<RequestedValue>& requested,
                                   std::vector<ValueId>& made);

}  // namespace plait::program

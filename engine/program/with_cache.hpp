// Generation as a rewrite: the program of whole samples becomes the program of a few tokens of
// each, which reads the keys and values of the tokens before from a cache.
//
// The rules that shard a program among ranks prove that it can be done: an op that works on a shard
// of the rows along the tokens works on any rows. Attention alone mixes tokens, and is written over
// the cache. Rows that are sorted into groups are each computed alone, too, and put back in order
// (OpDef::grouping). A value that all samples share, such as a table of positions, is read at the
// positions of the tokens.
//   B sequences of a launch, S tokens of a sequence at most, t tokens of a launch, N slots
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// An op of the whole program that its definition writes over the cache.
struct CacheContext {
  const Graph& from;
  const Op& op;
  Graph& to;
  // Input i for the tokens of the launch; their dimension is where the whole input has S.
  std::function<ValueId(size_t input)> rows;
  // The cache (N, S, ..) of rows (B, t, ..), which are written to it first.
  std::function<ValueId(ValueId rows)> cache;
  ValueId slot = 0;          // (B) i32: the slot of each sequence
  ValueId at = 0;            // (B, t) i32: the place of each token in its sequence; -1: none
  bool only_cache = false;   // nobody reads the results
  std::vector<ValueId> out;  // to be set, unless `only_cache`; 0: a result that nobody may read
};

// A table with a row for each position along `dim`, of which a launch reads some.
struct TableContext {
  const Op& op;
  Graph& to;
  int32_t dim = 0;
  // Input i of the op as it is in the whole program; 0 where it has rows of the launch's tokens.
  std::function<ValueId(size_t input)> whole;
  ValueId positions = 0;  // (B, t) i32
  // (B) i32: the tokens of each sequence, with the part of its prompt that is not cached yet. A
  // sequence of at most `most` tokens has other rows than a longer one.
  std::function<ValueId(int64_t most)> lengths;
  std::vector<ValueId> out;  // to be set to (B, t, ..); empty: gathers the rows of the whole table
};

// What stands for what in the whole program, in which a sample has S tokens.
struct CacheSource {
  ValueId tokens = 0;           // (B, S) i32: the ids
  ValueId positions = 0;        // (B, S) i32, or 0: their places, where a field has them
  ValueId numbers = 0;          // (B) i32, or 0: what a field has of each sequence
  std::set<ValueId> constants;  // parameters: the same for all tokens
  ValueId output = 0;           // (B, S, ..)
};
// Where the host writes what a launch is fed.
struct CacheInputs {
  int64_t tokens = 1;        // t
  BufferRef ids;             // (B, t) i32
  BufferRef at;              // (B, t) i32
  BufferRef positions;       // (B, t) i32: `at`, and 0 where that is -1
  BufferRef slot;            // (B) i32
  BufferRef lengths;         // (B) i32: tokens of each sequence
  BufferRef numbers;         // (B) i32: see CacheSource
  int64_t slots = 1;         // N
  int64_t length = 1;        // S
  uint32_t cache_type = 0;   // of cached values; 0: their own
  bool writes_only = false;  // keys and values are cached, the output is not computed
};
struct CachedProgram {
  std::unique_ptr<Graph> graph;
  ValueId output = 0;  // (B, t, ..); 0 with writes_only
  // The parameters in this program, by their values in the whole one; 0: not read.
  std::vector<ValueId> constants;
  // When a sequence gets longer than one of these, all of it must be cached anew.
  std::set<int64_t> length_limits;
};

// Errors: PLAIT_ERR_CONFIG naming the op that mixes tokens, or the value that a launch is not fed.
CachedProgram with_cache(const Graph& whole, const CacheSource& source, const CacheInputs& inputs);

// Gives the caches of a program their memory: allocate() is called for each, in the order of the
// program. Until then a cache is the result of an op without a kernel, so that sharding divides it
// like the values that are written to it.
void place_caches(Graph& g, const std::function<BufferRef(const plait_shape&)>& allocate);

}  // namespace plait::program

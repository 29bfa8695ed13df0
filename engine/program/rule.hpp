// What the engine knows of an op: how shapes follow, how gradients follow, what it costs. One file per family in rules/.
#pragma once

#include <string>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// One op application before it exists: what a shape rule sees.
struct Application {
  const std::string& op;
  const std::vector<plait_shape>& in;
  const Attrs& attrs;
  const std::string& scope;
  uint32_t float_type = PLAIT_F32;  // of results that no input gives a type
  // "[model.fc1] matmul:" - opens every message.
  std::string where() const { return "[" + scope + "] " + op + ":"; }
  // Throws when the number of inputs is not within [min, max].
  void arity(size_t min, size_t max) const;
};

// An op of the forward program as its gradient rule sees it. d_out[i] is 0 where output i has no gradient.
// `wanted[i]` says whether the gradient of input i is needed; results go to d_in.
struct Use {
  Graph& g;
  const Op op;  // a copy: rules append ops, which moves the graph's own
  const std::vector<ValueId>& d_out;
  const std::vector<char>& wanted;
  std::vector<ValueId> d_in;
};

// Ops that talk to other ranks; the runtime carries them out, no device kernel does.
enum class CollectiveOp : uint8_t { kNone, kStart, kDone };

struct Sharding;
// How an op is shared by the ranks of a tensor group; see partition.hpp. One for each kind of op; nullptr: it needs whole values.
using ShardingRule = bool (*)(const Graph&, const Op&, const std::vector<int32_t>& have,
                              int64_t ranks, Sharding&);
bool shard_map(const Graph&, const Op&, const std::vector<int32_t>&, int64_t, Sharding&);
bool shard_matmul(const Graph&, const Op&, const std::vector<int32_t>&, int64_t, Sharding&);
bool shard_reduce(const Graph&, const Op&, const std::vector<int32_t>&, int64_t, Sharding&);
bool shard_reshape(const Graph&, const Op&, const std::vector<int32_t>&, int64_t, Sharding&);
bool shard_transpose(const Graph&, const Op&, const std::vector<int32_t>&, int64_t, Sharding&);
bool shard_off_axis(const Graph&, const Op&, const std::vector<int32_t>&, int64_t, Sharding&);
bool shard_gather(const Graph&, const Op&, const std::vector<int32_t>&, int64_t, Sharding&);
bool shard_scatter(const Graph&, const Op&, const std::vector<int32_t>&, int64_t, Sharding&);
bool shard_rows(const Graph&, const Op&, const std::vector<int32_t>&, int64_t, Sharding&);

struct ShardContext;
// Writes an op whose shared form is not the same op over parts; see partition.hpp. False: it can't.
using ShardedRewrite = bool (*)(ShardContext&);
bool write_sharded_gather(ShardContext&);
bool write_sharded_cross_entropy(ShardContext&);
bool write_sharded_cross_entropy_grad(ShardContext&);

struct Rule {
  const char* name;
  std::vector<plait_shape> (*infer)(const Application&);
  // nullptr: gradients do not pass through this op.
  void (*gradient)(Use&);
  // Floating-point operations, or nullptr: one per output element. A plugin's item says it itself.
  double (*flops)(const Graph&, const Op&) = nullptr;
  bool is_view = false;  // no kernel: the output is the input's memory
  CollectiveOp collective = CollectiveOp::kNone;
  ShardingRule sharding = nullptr;
  ShardedRewrite write_sharded = nullptr;
  const plait_op_item* item = nullptr;  // of a plugin's op, with the host to call it with
  const plait_host* host = nullptr;
};

// The engine's own rules. Element-wise names (add, tanh, ...) are not rules: apply() turns them into `map`.
const std::vector<const Rule*>& core_rules();
// Instruction and number of operands of an element-wise builder name; operands = 0 when it is none.
struct Elementwise {
  uint32_t code = 0;
  uint32_t operands = 0;
};
Elementwise elementwise(std::string_view name);
std::vector<std::string> elementwise_names();
void map_gradient(Use& use);

// Floating-point operations of an op; none for views.
double flops_of(const Graph& g, const Op& op);

// Helpers for gradient rules.
ValueId binary(Graph& g, const char* name, ValueId a, ValueId b);
ValueId scaled(Graph& g, ValueId a, double factor);
ValueId reshaped(Graph& g, ValueId v, const Dims& dims);
// Sums `v` down to `shape`, undoing a broadcast.
ValueId sum_to(Graph& g, ValueId v, const plait_shape& shape);
// A value of zeros (or `fill`) with that shape.
ValueId filled(Graph& g, const plait_shape& shape, double fill);

}  // namespace plait::program

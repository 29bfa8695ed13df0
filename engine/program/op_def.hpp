// The definition of an op: everything that the engine knows about it. Core ops are defined in ops/,
// one file per op or family; ops of plugins become definitions when first looked up
// (plugin_op.hpp).
//
// Other code never compares names of ops: it reads properties of the definition.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/program/graph.hpp"
#include "engine/program/placement.hpp"

namespace plait::program {

using AttrDecls = std::span<const plait_option>;

// One application of an op before it exists, for its shape rule.
struct InferContext {
  const OpDef& def;
  const std::vector<plait_shape>& in;
  const Attrs& attrs;         // checked, defaults filled in
  const plait_op_desc& desc;  // the same for a plugin or a parser of kit/; no outputs
  const std::string& scope;
  const std::vector<char>& weak;    // inputs that are converted to the type of the others
  uint32_t float_type = PLAIT_F32;  // type of results without a typed input
  // "[model.fc1] matmul:" - opens every message.
  std::string where() const;
  // Throws when the number of inputs is not within [min, max].
  void arity(size_t min, size_t max) const;
  // A shape of the first input's type.
  plait_shape like_first(const Dims& dims) const { return make_shape(in.at(0).dtype, dims); }
};

// An op of the forward program, for its gradient rule. d_out[i] is 0 if output i has no gradient.
// wanted[i]: the gradient of input i is needed; the rule sets d_in.
struct VjpContext {
  Graph& g;
  const Op op;  // a copy: rules append ops, which moves the graph's own
  const std::vector<ValueId>& d_out;
  const std::vector<char>& wanted;
  std::vector<ValueId> d_in;
};

// Ops that communicate with other ranks. The runtime executes them, not a kernel of the device.
enum class CollectiveOp : uint8_t { kNone, kStart, kDone };

// What mixed precision makes of an op; see precision.hpp.
enum class PrecisionClass : uint8_t {
  kWide,    // computes in f32: what nothing is known of, too
  kFollow,  // takes operands as they come; its definition gives the types of the results
  kLow,     // computes in the low type: products
  kTable,   // rows of a table, which begin the residual stream: as low as that is
};

// What an op does with rows that are sorted into groups (ops/grouped.cpp), whose order follows from
// data and which are of no sample alone.
enum class Grouping : uint8_t {
  kNone,    // nothing: of ops that read them, element-wise ones alone give such rows again
  kSorts,   // sorts the rows of tokens: all results are of the groups
  kKeeps,   // multiplies the rows of each group by a matrix of its own
  kReads,   // sums over the rows of each group
  kUndoes,  // adds rows up to one row for each token
};

// The code that may write an op by its name.
enum class Audience : uint8_t {
  kEveryone,
  kEngine,  // the engine's own passes only
};

// The ops that fold_matmul may fold into the op before them, each as the attribute of that name.
inline constexpr uint32_t kFoldBias = 1, kFoldActivation = 2, kFoldAccumulate = 4, kFoldSquares = 8;

struct CacheContext;
struct PerSampleContext;
struct PerSampleResult;
struct QuantizedRows;
struct ShardContext;
struct TableContext;
// How an op lies on the ranks along one axis of the mesh; see shard.hpp. have: how each input lies,
// none of them partial. All inputs and results are replicated at the call. False: it needs
// replicated inputs.
using ShardRule = bool (*)(const Graph&, const Op&, const std::vector<Placement>& have,
                           int64_t ranks, Sharding&);

// Whether a shard of a replicated result along `dim` can be made without the rest of it.
struct PartQuery {
  const Graph& from;
  const Op& op;
  int64_t ranks = 1;
  int32_t dim = 0;
  bool padded = false;  // the ranks do not divide the extent
  // The same question about an input.
  std::function<bool(size_t input, int32_t dim)> can_make;
};

// An input that holds row or class numbers, and which of them there are: [least, end).
struct IndexUse {
  size_t operand = 0;
  int64_t least = 0, end = 0;
  bool labels = false;  // classes of a loss; values below 0 are ignored
};

// The places of an op that applies a weight of two dimensions, or of three, a matrix for each group
// of rows: input numbers.
struct WeightUse {
  size_t input = 0, weight = 1;
  size_t bias = 0;        // 0: none
  size_t groups = 0;      // where the rows of each group begin; 0: one matrix for all rows
  bool is_table = false;  // rows of the weight by their numbers; else a product over the last axis
  bool out_in = false;    // of a product: the weight is (outputs, inputs), else (inputs, outputs)
};

// A small application of an op, for generated tests. Inputs are floats, then f32 tables without a
// gradient, then integers, then the counter of random numbers.
struct OpExample {
  std::vector<Dims> inputs;
  Attrs attrs = {};
  double low = -1.5, high = 1.5;  // range of the floats
  std::vector<std::vector<double>> indices = {};
  Dims index_dims = {};
  std::vector<Dims> tables = {};
  bool counter = false;
  std::vector<size_t> flat = {};  // inputs without a gradient: truth values
};

struct OpDef {
  const char* name;
  const char* help = "";         // one line
  const char* signature = "";    // operands and results with their dims: "x (R.., C) -> y (R.., C)"
  const char* dtypes = "";       // of the operands
  AttrDecls attrs = {};          // the attributes that layers and gradient rules may give
  AttrDecls rewrite_attrs = {};  // the attributes that only passes of the engine give
  bool takes_any_attr = false;   // a plugin's op that declares none checks them itself
  Audience audience = Audience::kEveryone;

  // Shapes of the results.
  std::vector<plait_shape> (*infer)(const InferContext&) = nullptr;
  // Of a name that stands for another op: fills in `op`, in place of infer().
  std::vector<plait_shape> (*lower)(const InferContext&, const Graph&, Op& op) = nullptr;
  // Written by the context of the builder, which knows seed, stream and counter.
  bool draws_random = false;
  // Whether an op with these attributes reads random numbers: the context of the builder appends
  // the counter to its inputs and gives the attributes seed and stream.
  bool (*reads_random)(const Attrs&) = nullptr;
  // Computes gradients of the inputs from gradients of the results; nullptr: not differentiable.
  void (*vjp)(VjpContext&) = nullptr;
  // Results from this one on are only saved for the backward pass and have no gradient.
  size_t differentiable_outputs = std::numeric_limits<size_t>::max();
  // Floating-point operations; nullptr: one per element of the first result.
  double (*flops)(const Graph&, const Op&) = nullptr;
  // flops() as if its mask let every pair through; nullptr: it has no mask.
  double (*unmasked_flops)(const Graph&, const Op&) = nullptr;
  // Whether flops() belongs to the FLOPs of a model, of which only products count.
  bool is_product = false;
  // A product of a layer whose operands are what mark_products() may note; see float8.hpp.
  bool takes_mark = false;
  // It makes an operand of a product in the product's own number format, and reads nothing that the
  // product would not read: what is true of operands of products is true of its input.
  bool prepares_operand = false;
  // Whether the first result is a negative log-likelihood in nats: exp of its mean is a perplexity.
  bool (*is_log_likelihood)(const Op&) = nullptr;

  bool is_view = false;        // no kernel: the result shares the memory of the input
  bool updates_input = false;  // result 0 is input 0, changed in its memory
  // An input whose memory result 0 may take: kernels read an element of it no later than they write
  // that of the result. -1: none. See overwrite_inputs.hpp.
  int32_t overwrites = -1;
  bool cheap_to_recompute = false;  // takes about as long as reading its operands does
  bool is_map = false;              // an expression over elements, in Op::map
  bool is_elementwise = false;      // a name of `map`: weak operands alone make a weak result
  CollectiveOp collective = CollectiveOp::kNone;
  // Whether it is needed though nobody reads its result: another rank waits for it.
  bool (*is_awaited)(const Graph&, const Op&) = nullptr;
  uint32_t folds = 0;  // kFold*
  PrecisionClass precision = PrecisionClass::kWide;
  // Whether this one computes in f32 nevertheless, whatever its class is; nullptr: no.
  bool (*stays_wide)(const Op&) = nullptr;
  // So many leading float operands are of one type; those behind them keep theirs.
  size_t typed_operands = std::numeric_limits<size_t>::max();
  bool writes_any_float = false;  // attribute `dtype`: the type of the first result
  bool takes_tf32 = false;        // attribute `tf32`: operands of f32 are rounded; see tf32.hpp
  // Whether it computes one sum of squares of its input, which may fold into the op before it.
  bool (*sums_squares)(const Graph&, const Op&) = nullptr;
  std::optional<IndexUse> (*index_use)(const Graph&, const Op&) = nullptr;
  std::optional<WeightUse> (*weight_use)(const Graph&, const Op&) = nullptr;

  ShardRule shard = nullptr;
  // Writes the sharded form if that is not the same op on shards. False: it has none.
  bool (*write_sharded)(ShardContext&) = nullptr;
  // Whether a shard of the result along `dim` can be computed alone; and computes it (`part`).
  bool (*can_make_part)(const PartQuery&) = nullptr;
  ValueId (*make_part)(ShardContext&, int32_t dim, const plait_shape& part) = nullptr;
  // Whether the op is linear, so that it maps partial sums to partial sums.
  bool (*is_linear)(const Op&) = nullptr;
  // The attributes of the op on shards, if the whole op has others.
  Attrs (*attrs_of_part)(const Op&, const plait_shape& part) = nullptr;
  // An input that is added to the result: if the result is a partial sum, it must be added once for
  // all ranks. Also writes the op without it. 0: none.
  size_t (*addend)(const Op&, Op& without) = nullptr;

  // Generation; see with_cache.hpp. Of an op that mixes the tokens of a sample, q, k and v its
  // first
  // inputs: writes it over a cache. False: it cannot be, as a token sees those behind it.
  bool (*write_cached)(CacheContext&) = nullptr;
  // Of a table with a row for each position: writes the rows of other positions instead.
  void (*write_at)(TableContext&) = nullptr;
  bool is_cache = false;  // its result is a cache, which place_caches() gives its memory

  Grouping grouping = Grouping::kNone;  // see with_cache.hpp and shard.hpp

  // See quantize.hpp. The input that is a matrix of weights of which it may read numbers and scales
  // instead, nothing where there is none; and writes it so.
  std::optional<size_t> (*reads_weight)(const Graph&, const Op&) = nullptr;
  ValueId (*write_quantized)(Graph&, const Op&, const QuantizedRows&) = nullptr;

  // Writes it where some of its operands differ from sample to sample: see per_sample.hpp. nullptr:
  // it cannot read them.
  PerSampleResult (*per_sample)(PerSampleContext&) = nullptr;

  std::vector<OpExample> (*examples)() = nullptr;

  const plait_op_item* item = nullptr;  // of a plugin's op, with the host to call it with
  const plait_host* host = nullptr;
  std::vector<plait_option> declared = {};  // storage of `attrs` of a plugin's op
};

// The engine's own definitions, element-wise names included.
const std::vector<const OpDef*>& core_ops();

// " of plugin x" for a plugin's op, else "": for messages.
std::string owner_of(const OpDef& def);
// Floating-point operations of an op; none for views.
double flops_of(const Graph& g, const Op& op);
// The same as if masks let every pair through.
double unmasked_flops_of(const Graph& g, const Op& op);

// Checks attributes against their declarations and fills in defaults. Throws PLAIT_ERR_INVALID with
// the nearest name. `where` opens the message.
Attrs checked(const OpDef& def, Attrs attrs, const std::string& where);
// Refuses attributes that only passes of the engine may write.
void check_audience(const OpDef& def, const Attrs& attrs, const std::string& where);

// Helpers for gradient rules.
ValueId binary(Graph& g, const char* name, ValueId a, ValueId b);
ValueId scaled(Graph& g, ValueId a, double factor);
ValueId reshaped(Graph& g, ValueId v, const Dims& dims);
// Sums `v` down to `shape`, undoing a broadcast.
ValueId sum_to(Graph& g, ValueId v, const plait_shape& shape);
// A value of zeros (or `fill`) with that shape.
ValueId filled(Graph& g, const plait_shape& shape, double fill);

// Attribute `dtype`, else `otherwise`: see OpDef::writes_any_float.
uint32_t result_type(const InferContext& c, uint32_t otherwise);

// One flop for each element of the first input, times `each`.
template <int each>
double flops_per_input(const Graph& g, const Op& op) {
  return static_cast<double>(each) * static_cast<double>(elements(g.shape(op.in[0])));
}
inline double no_flops(const Graph&, const Op&) { return 0; }

}  // namespace plait::program

// A program under construction: values, and the ops that compute them, in execution order.
#pragma once

#include <plait/build.h>
#include <plait/map.h>

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/program/attrs.hpp"
#include "engine/program/shape.hpp"

namespace plait::program {

using ValueId = plait_value;  // 0: none
struct OpDef;
class OpRegistry;

// The role of a value, which decides where its memory comes from.
enum class Role {
  kTransient,   // computed and used inside the program; memory planned by liveness
  kPersistent,  // memory outside the program: parameters, gradients, states, inputs, results
};

// A place in persistent memory: bytes [offset, offset + size) of a segment (see plan/storage.hpp).
struct BufferRef {
  int32_t segment = -1;
  uint64_t offset = 0;
  bool operator==(const BufferRef&) const = default;
};

struct Value {
  plait_shape shape{};
  Role role = Role::kTransient;
  BufferRef buffer;          // of a persistent value
  std::string name;          // of inputs and parameters, for messages
  int32_t producer = -1;     // index of the op that computes it; -1: an input
  ValueId alias_of = 0;      // the value whose memory this one shares (reshape, in-place result)
  uint64_t byte_offset = 0;  // from the beginning of that memory
  bool requires_grad = false;
  bool weak =
      false;  // a constant scalar, which an element-wise op converts to the type of the others
};

// An element-wise expression; see plait/map.h.
struct MapExpr {
  std::vector<plait_map_instr> instrs;
  std::vector<uint32_t> outputs;  // registers
};

struct Op {
  std::string name;
  const OpDef* def = nullptr;
  std::vector<ValueId> in, out;
  Attrs attrs;
  MapExpr map;                 // of op "map"
  std::vector<int32_t> alias;  // per output: index of the input it overwrites, or -1; empty: none
  std::string scope;           // the layer that wrote it, for messages and reports
  bool backward = false;
  // Runs in Phase::kBackward even if only gradients of parameters need it.
  bool not_deferred = false;
  int32_t stage = 0;  // of the pipeline
};

class Graph {
 public:
  // float_type: the type of floats without a typed operand: constants, fills, indices as numbers.
  explicit Graph(const OpRegistry* registry, uint32_t float_type = PLAIT_F32)
      : registry_(registry), float_type_(float_type), values_(1), readers_(1) {}

  const Value& value(ValueId v) const { return values_.at(v); }
  Value& value(ValueId v) { return values_.at(v); }
  const plait_shape& shape(ValueId v) const { return values_.at(v).shape; }
  size_t n_values() const { return values_.size(); }
  const std::vector<Op>& ops() const { return ops_; }
  const OpRegistry* registry() const { return registry_; }
  uint32_t float_type() const { return float_type_; }

  // Indices of the ops that read the value itself, ascending, each once. Views count as readers.
  // The reference holds until ops or values are added or changed.
  const std::vector<int32_t>& readers(ValueId v) const { return readers_.at(v); }
  // Whether the value is computed here in memory outside the program, so that it must be written
  // even if no op reads it.
  bool is_output(ValueId v) const;

  // A value from outside the program.
  ValueId persistent(std::string name, const plait_shape& shape, BufferRef buffer);
  // A scalar constant. It is weak: an element-wise op converts it to the type of its other
  // operands, which so decide the type of the result.
  ValueId constant(double v);
  // v converted to that type; v itself if it has it.
  ValueId as_type(ValueId v, uint32_t dtype);
  // Applies an op by name; the same op on the same inputs returns the same values again.
  std::vector<ValueId> apply(std::string_view name, std::vector<ValueId> in, Attrs attrs = {});
  ValueId apply1(std::string_view name, std::vector<ValueId> in, Attrs attrs = {}) {
    return apply(name, std::move(in), std::move(attrs))[0];
  }
  // An element-wise op, for append().
  Op map_op(std::vector<ValueId> in, std::vector<plait_map_instr> instrs,
            std::vector<uint32_t> outputs) const;
  // Appends an op unchanged, with the shapes of its results: for rewrites. Returns the results.
  std::vector<ValueId> append(Op op, const std::vector<plait_shape>& outputs) {
    return add(std::move(op), outputs);
  }
  // The value that owns the memory of `v`: follows alias_of to its end. storage_offset: bytes from
  // the beginning of that memory.
  ValueId storage_of(ValueId v) const;
  uint64_t storage_offset(ValueId v) const;
  // Transient memory for other values; no op computes it as a whole.
  ValueId buffer(const plait_shape& shape);
  // The memory at `offset` bytes of a buffer as a value, which need not be computed yet.
  ValueId view(ValueId buffer, uint64_t offset, const plait_shape& shape);
  // Like bind(), into a buffer.
  ValueId bind_into(ValueId v, ValueId buffer, uint64_t offset);
  // Makes the program leave `v` in `buffer`: its producer writes there directly if that is safe,
  // otherwise a copy is appended. Returns the value in the buffer.
  ValueId bind(ValueId v, BufferRef buffer);
  // Appends an in-place update: writes `v` to the memory of `target` (persistent). Returns the
  // value of `target` afterwards.
  ValueId assign(ValueId target, ValueId v);
  // apply1() of an op that writes its result to the memory of its first input.
  ValueId apply_in_place(std::string_view name, std::vector<ValueId> in, Attrs attrs);

  // Rewrites. They update the readers and producers of values; an op keeps its index until
  // reorder(). This one makes an op read `v` as its input k. The result of a view, and of an op
  // that
  // updates that input, then shares the memory of `v`.
  void set_input(size_t op, size_t k, ValueId v);
  void set_attr(size_t op, Attr a) { ops_.at(op).attrs.set(std::move(a)); }
  void set_alias(size_t op, std::vector<int32_t> alias) { ops_.at(op).alias = std::move(alias); }
  // Replaces an op by `by`, which becomes the producer of all its outputs, even of those that
  // another op computed.
  void replace(size_t op, Op by);
  // Removes an op and returns it; an empty op without a definition stays in its place until
  // reorder().
  Op remove(size_t op);
  // Reduces the program to the ops at these indices, in this order.
  void reorder(const std::vector<size_t>& order);

  // Ops written now stand where `op` does: scope, backward, not_deferred and stage are the same.
  void write_like(const Op& op);
  // An op without a name that stands where ops are written now.
  Op context() const;

  // The item that writes; becomes the scope of every op.
  std::string scope;
  // Whether the ops written now belong to the backward pass.
  bool backward = false;
  bool not_deferred = false;  // of those ops: see Op
  // The pipeline stage of the ops written now. A forward op belongs to no earlier stage than its
  // inputs; equal ops of two stages are two ops.
  int32_t stage = 0;

 private:
  std::vector<ValueId> add(Op op, const std::vector<plait_shape>& outputs);
  ValueId add_value(Value value);
  void add_reader(ValueId v, int32_t op);
  void drop_reader(ValueId v, int32_t op);
  std::vector<plait_shape> infer(Op& op);
  ValueId strong(ValueId v, uint32_t dtype);

  const OpRegistry* registry_;
  uint32_t float_type_;
  std::deque<Value> values_;  // a deque: references to shapes stay valid while ops are added
  std::vector<Op> ops_;
  std::vector<std::vector<int32_t>> readers_;  // by value
  std::unordered_map<std::string, std::vector<ValueId>>
      cse_table_;  // the results of apply() so far
};

}  // namespace plait::program

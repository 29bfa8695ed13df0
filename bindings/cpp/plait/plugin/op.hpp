// plait/plugin/op.hpp - ops as classes: shape rule, gradient rule, FLOPs and sharding rule as
// static functions.
#pragma once

#include <plait/op.h>
#include <plait/plugin/build.hpp>
#include <plait/plugin/error.hpp>

#include <concepts>
#include <span>
#include <string>
#include <vector>

namespace plait {
inline namespace authoring {

// One op of the forward program in its gradient rule.
class OpUse {
 public:
  OpUse(plait_builder* b, const plait_op_use* u, plait_value* d_inputs)
      : b_(b), u_(u), d_inputs_(d_inputs) {}
  Builder builder() const { return Builder(b_); }
  Value input(size_t i) const { return {b_, u_->inputs[i]}; }
  Value output(size_t i = 0) const { return {b_, u_->outputs[i]}; }
  Value d_output(size_t i = 0) const {
    return {b_, u_->d_outputs[i]};
  }  // false where there is none
  bool wanted(size_t i) const { return u_->needs_grad[i] != 0; }
  void set(size_t input, Value d) const { d_inputs_[input] = d.id; }
  // "[model.fc1] ..." is added by the engine.
  const plait_op_use& raw() const { return *u_; }

 private:
  plait_builder* b_;
  const plait_op_use* u_;
  plait_value* d_inputs_;
};

// One op application in its sharding rule, on one axis of the mesh. Every operand is replicated
// until it is set.
class ShardUse {
 public:
  static constexpr int32_t kReplicated = -1;

  ShardUse(plait_shard_use* u, uint32_t axis) : u_(u), axis_(axis) {}
  const plait_op_desc& op() const { return *u_->op; }
  int64_t ranks() const { return u_->ranks[axis_]; }
  // The dimension along which input i is sharded, or kReplicated.
  int32_t have(uint32_t i) const {
    const plait_placement& p = u_->have[at(i)];
    return p.kind == PLAIT_PLACE_SHARD ? p.dim : kReplicated;
  }
  void input(uint32_t i, int32_t dim) { u_->inputs[at(i)] = placed(dim); }
  void output(uint32_t i, int32_t dim) { u_->outputs[at(i)] = placed(dim); }
  // Every rank has a term of output i; PLAIT_COMM_SUM or PLAIT_COMM_MAX of all of them makes it.
  void partial(uint32_t i, uint32_t reduction) {
    u_->outputs[at(i)] = {PLAIT_PLACE_PARTIAL, -1, reduction, 0};
  }
  // Zeros at the same index in all sharded inputs give zeros there.
  void keeps_zeros() { u_->keeps_zeros = 1; }
  // All inputs have the shape of the outputs, and element i depends on elements i alone: all follow
  // the first sharded one.
  bool elementwise() {
    int32_t dim = kReplicated;
    for (uint32_t i = 0; i < op().n_inputs && dim < 0; ++i) dim = have(i);
    for (uint32_t i = 0; i < op().n_inputs; ++i) input(i, dim);
    for (uint32_t i = 0; i < op().n_outputs; ++i) output(i, dim);
    return dim >= 0;
  }

 private:
  size_t at(uint32_t i) const { return size_t{i} * u_->n_axes + axis_; }
  static plait_placement placed(int32_t dim) {
    if (dim < 0) return {PLAIT_PLACE_REPLICATE, -1, 0, 0};
    return {PLAIT_PLACE_SHARD, dim, 0, 0};
  }
  plait_shard_use* u_;
  uint32_t axis_;
};

namespace detail {

template <class O>
plait_error* op_infer(const plait_host* host, const plait_op_desc* desc, plait_shape* outputs) {
  return guard(maker(host), [&] {
    const std::vector<Shape> shapes = O::infer(*desc);
    for (size_t i = 0; i < shapes.size() && i < O::kOutputs; ++i) outputs[i] = shapes[i].raw();
  });
}

template <class O>
plait_error* op_gradient(plait_builder* b, const plait_op_use* use, plait_value* d_inputs) {
  return guard(maker(b), [&] { O::gradient(OpUse(b, use, d_inputs)); });
}

template <class O>
uint32_t op_shard(plait_shard_use* use) {
  uint32_t any = 0;
  for (uint32_t axis = 0; axis < use->n_axes; ++axis) {
    ShardUse one(use, axis);
    if (O::shard(one)) {
      any = 1;
      continue;
    }
    for (uint32_t i = 0; i < use->op->n_inputs; ++i) one.input(i, ShardUse::kReplicated);
    for (uint32_t i = 0; i < use->op->n_outputs; ++i) one.output(i, ShardUse::kReplicated);
  }
  return any;
}

}  // namespace detail

// An op class O:
//   static constexpr uint32_t kOutputs = 1;
//   static std::vector<Shape> infer(const plait_op_desc&);         may fail()
// and, where the op has them:
//   static void gradient(const OpUse&);
//   static double flops(const plait_op_desc&);
//   static bool shard(ShardUse&);                            false: it needs replicated inputs
// `attrs` lives as long as the item. An op without attributes gives none, and takes none.
template <class O>
plait_op_item op_item(const char* name, const char* help,
                      std::span<const plait_option> attrs = {}) {
  static constexpr plait_option kNone{};
  plait_op_item item{};
  item.struct_size = sizeof item;
  item.name = name;
  item.help = help;
  item.n_outputs = O::kOutputs;
  item.infer = detail::op_infer<O>;
  if constexpr (requires(const OpUse& u) { O::gradient(u); })
    item.gradient = detail::op_gradient<O>;
  if constexpr (requires(const plait_op_desc& d) { O::flops(d); })
    item.flops = [](const plait_op_desc* d) -> double { return O::flops(*d); };
  item.attrs = attrs.empty() ? &kNone : attrs.data();
  item.n_attrs = static_cast<uint32_t>(attrs.size());
  if constexpr (requires(ShardUse & u) { O::shard(u); }) item.shard = detail::op_shard<O>;
  return item;
}

}  // namespace authoring
}  // namespace plait

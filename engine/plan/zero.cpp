#include "engine/plan/zero.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/plan/collectives.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/passes.hpp"

namespace plait::plan {

using program::Graph;
using program::make_shape;
using program::Op;
using program::ValueId;

namespace {

// Zeros where no gradient will lie: what is between parameters would show in the norm.
void fill_gap(Graph& g, ValueId buffer, int64_t begin, int64_t end, std::vector<ValueId>& filled) {
  if (begin >= end) return;
  const uint32_t dtype = g.shape(buffer).dtype;
  Op op = g.map_op({}, {{PLAIT_MAP_CONST, 0, 0, 0, 0}}, {0});
  const ValueId zeros = g.append(std::move(op), {make_shape(dtype, {end - begin})})[0];
  filled.push_back(g.bind_into(zeros, buffer, program::bytes_of(begin, dtype)));
}

// Waits for the sum of a bucket's gradients. Returns this rank's own elements of it; of a parameter
// that another replica owns, none.
ValueId own_sum(Graph& g, const Bucket& bucket, int32_t collective, ValueId sum, ValueId buffer) {
  if (bucket.owner < 0) return wait_collective(g, collective, sum, buffer);
  const ValueId all = wait_collective(g, collective, sum);
  return g.view(all, 0, make_shape(g.shape(all).dtype, {bucket.shard_elements}));
}

}  // namespace

void scatter_gradients(Graph& g, PlanDraft& plan,
                       const std::map<const Parameter*, ValueId>& gradients) {
  struct Started {
    int32_t collective;
    ValueId sum, buffer;
    const ParameterGroup* group;
    const Bucket* bucket;
  };
  std::vector<Started> started;
  for (size_t k = 0; k < plan.groups.size(); ++k) {
    const ParameterGroup& group = plan.groups[k];
    g.scope = group.name;
    const auto members_of = bucket_members(plan, k);
    for (size_t i = group.buckets.size(); i-- > 0;) {
      const Bucket& bucket = group.buckets[i];
      const std::vector<const Parameter*>& inside = members_of[i];
      if (std::none_of(inside.begin(), inside.end(),
                       [&](const Parameter* p) { return gradients.count(p) != 0; }))
        continue;
      const uint32_t dtype = group.gradients.dtype;
      const ValueId buffer = g.buffer(make_shape(dtype, {bucket.elements}));
      std::vector<ValueId> in{buffer};
      int64_t filled = 0;
      for (const Parameter* p : inside) {
        const auto gradient = gradients.find(p);
        if (gradient == gradients.end()) continue;  // no loss depends on it
        const int64_t at = p->flat_offset - bucket.begin;
        fill_gap(g, buffer, filled, at, in);
        in.push_back(g.bind_into(gradient->second, buffer, program::bytes_of(at, dtype)));
        filled = at + p->stored_elements;
      }
      fill_gap(g, buffer, filled, bucket.elements, in);
      // A parameter with an owner: all replicas get the sum, the owner keeps it.
      const bool scatter = bucket.owner < 0;
      const int32_t collective = add_collective(
          plan, "gradients of " + group.name + ", bucket " + std::to_string(i),
          topology::Axis::kData, scatter ? PLAIT_COMM_REDUCE_SCATTER : PLAIT_COMM_ALL_REDUCE);
      const ValueId sum = scatter ? start_reduce_scatter(g, plan, collective, std::move(in))
                                  : start_all_reduce(g, plan, collective, std::move(in));
      started.push_back({collective, sum, buffer, &group, &bucket});
    }
  }
  for (const Started& s : started) {
    g.scope = s.group->name;
    const ValueId own = own_sum(g, *s.bucket, s.collective, s.sum, s.buffer);
    const BufferRef buffer = s.group->gradients.at(s.bucket->state_begin);
    if (!plan.accumulates()) {
      g.bind(own, buffer);
      continue;
    }
    const ValueId sum = g.persistent("gradients of " + s.group->name, g.shape(own), buffer);
    g.assign(sum, program::binary(g, "add", sum, own));
  }
}

namespace {

// One coming and going of a bucket's parameters.
struct GatherWindow {
  const ParameterGroup* group = nullptr;
  const Bucket* bucket = nullptr;
  bool backward = false;
  size_t first_use = 0;  // op
  ValueId buffer = 0;
  std::map<const Parameter*, ValueId> views;
  size_t start = 0, wait = 0;  // ops: [start, wait) starts it
};

// Which buckets are needed when, in the order of their first use; the uses now read views of their
// buffers.
std::vector<GatherWindow> gather_windows(Graph& g, const Plan& plan,
                                         const std::map<ValueId, const Parameter*>& parameter_of) {
  std::vector<GatherWindow> all;
  std::map<std::pair<const Bucket*, bool>, size_t>
      index;  // by bucket, and whether it is the backward pass
  const size_t n = g.ops().size();
  for (size_t i = 0; i < n; ++i) {
    const bool backward = g.ops()[i].backward;
    for (size_t k = 0; k < g.ops()[i].in.size(); ++k) {
      const auto at = parameter_of.find(g.ops()[i].in[k]);
      if (at == parameter_of.end()) continue;
      const Parameter& p = *at->second;
      const Bucket& bucket = bucket_of(plan, p);
      const auto [known, first] = index.try_emplace({&bucket, backward}, all.size());
      if (first) {
        all.push_back({&group_of(plan, p), &bucket, backward, i, 0, {}, 0, 0});
        all.back().buffer = g.buffer(make_shape(p.shape.dtype, {bucket.elements}));
      }
      GatherWindow& window = all[known->second];
      ValueId& view = window.views[&p];
      if (!view)
        view = g.view(window.buffer, program::bytes_of(p.flat_offset - bucket.begin, p.shape.dtype),
                      g.shape(at->first));
      g.set_input(i, k, view);
    }
  }
  return all;
}

// From each replica its own elements; of a parameter with an owner, all from the owner, which puts
// them into the buffer first.
ValueId start_gather(Graph& g, PlanDraft& plan, const ParameterGroup& group,
                     const GatherWindow& window, int32_t collective) {
  const Bucket& bucket = *window.bucket;
  const auto own = [&] {
    return flat(g, "parameters of " + group.name, group.parameters, bucket.state_begin,
                bucket.shard_elements);
  };
  if (bucket.owner < 0) return start_all_gather(g, plan, collective, {own()}, window.buffer);
  plan.collectives[static_cast<size_t>(collective)].peer = static_cast<uint32_t>(bucket.owner);
  if (bucket.shard_elements == 0)
    return g.bind_into(start_receive(g, plan, collective, g.shape(window.buffer)), window.buffer,
                       0);
  const ValueId copy = g.bind_into(own(), window.buffer, 0);
  return start_broadcast(g, plan, collective, {window.buffer, copy});
}

}  // namespace

void gather_parameters(Graph& g, PlanDraft& plan,
                       const std::map<const Parameter*, ValueId>& values) {
  std::map<ValueId, const Parameter*> parameter_of;
  for (const auto& [p, v] : values)
    if (v && is_divided(plan, *p)) parameter_of[v] = p;
  const size_t n = g.ops().size();
  std::vector<GatherWindow> all = gather_windows(g, plan, parameter_of);
  for (GatherWindow& v : all) {
    const ParameterGroup& group = *v.group;
    g.scope = group.name;
    const int32_t collective = add_collective(
        plan,
        "parameters of " + group.name + ", bucket " +
            std::to_string(v.bucket - group.buckets.data()) +
            (v.backward ? ", for the backward pass" : ""),
        topology::Axis::kData, v.bucket->owner < 0 ? PLAIT_COMM_ALL_GATHER : PLAIT_COMM_BROADCAST);
    v.start = g.ops().size();
    const ValueId gathered = start_gather(g, plan, group, v, collective);
    v.wait = g.ops().size();
    const ValueId there = wait_collective(g, collective, gathered);
    for (const auto& [p, view] : v.views) g.value(view).alias_of = there;
  }
  // A bucket's collective starts when the bucket before it begins to be used.
  std::vector<size_t> order;
  const auto emit = [&](size_t op) { order.push_back(op); };
  const auto emit_start = [&](const GatherWindow& window) {
    for (size_t op = window.start; op < window.wait; ++op) emit(op);
  };
  size_t next = 0;  // visit
  for (size_t i = 0; i < n; ++i) {
    for (; next < all.size() && all[next].first_use == i; ++next) {
      if (next == 0) emit_start(all[0]);
      emit(all[next].wait);
      if (next + 1 < all.size()) emit_start(all[next + 1]);
    }
    emit(i);
  }
  g.reorder(order);
  program::eliminate_dead_ops(g);
}

}  // namespace plait::plan

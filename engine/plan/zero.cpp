#include "engine/plan/zero.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/plan/exchange.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/passes.hpp"
#include "engine/program/rule.hpp"

namespace plait::plan {

using program::Graph;
using program::make_shape;
using program::Op;
using program::ValueId;

namespace {

uint64_t bytes_of(int64_t elements) { return static_cast<uint64_t>(elements) * 4; }

// The parameters of a part in the order in which they lie.
std::vector<const Parameter*> members(const Plan& plan, int32_t group, const Part& part) {
  std::vector<const Parameter*> all;
  for (const Parameter& p : plan.parameters)
    if (p.group == group && p.held_by(plan.at.pipeline) && p.flat >= part.begin &&
        p.flat < part.begin + part.elements)
      all.push_back(&p);
  return all;
}

// Zeros where no gradient will lie: what is between parameters would show in the norm.
void fill_gap(Graph& g, ValueId buffer, int64_t begin, int64_t end, std::vector<ValueId>& filled) {
  if (begin >= end) return;
  Op op;
  op.name = "map";
  op.rule = g.rules()->find("map");
  op.map.instrs = {{PLAIT_MAP_CONST, 0, 0, 0, 0}};
  op.map.outputs = {0};
  const ValueId zeros = g.append(std::move(op), {make_shape(PLAIT_F32, {end - begin})})[0];
  filled.push_back(g.bind_inside(zeros, buffer, bytes_of(begin)));
}

}  // namespace

void scatter_gradients(Graph& g, Plan& plan, const std::map<const Parameter*, ValueId>& gradients) {
  struct Started {
    int32_t exchange;
    ValueId own, buffer;
    const Group* group;
    const Part* part;
  };
  std::vector<Started> started;
  for (size_t k = 0; k < plan.groups.size(); ++k) {
    const Group& group = plan.groups[k];
    g.scope = group.name;
    for (size_t i = group.parts.size(); i-- > 0;) {
      const Part& part = group.parts[i];
      const std::vector<const Parameter*> inside = members(plan, static_cast<int32_t>(k), part);
      if (std::none_of(inside.begin(), inside.end(),
                       [&](const Parameter* p) { return gradients.count(p) != 0; }))
        continue;
      const ValueId buffer = g.buffer(make_shape(PLAIT_F32, {part.elements}));
      std::vector<ValueId> in{buffer};
      int64_t filled = 0;
      for (const Parameter* p : inside) {
        const auto gradient = gradients.find(p);
        if (gradient == gradients.end()) continue;  // no loss depends on it
        const int64_t at = p->flat - part.begin;
        fill_gap(g, buffer, filled, at, in);
        in.push_back(g.bind_inside(gradient->second, buffer, bytes_of(at)));
        filled = at + p->stored;
      }
      fill_gap(g, buffer, filled, part.elements, in);
      const int32_t exchange =
          add_exchange(plan, "gradients of " + group.name + ", part " + std::to_string(i),
                       topology::Axis::kData, PLAIT_COMM_REDUCE_SCATTER);
      const ValueId own = start_reduce_scatter(g, plan, exchange, std::move(in));
      started.push_back({exchange, own, buffer, &group, &part});
    }
  }
  for (const Started& s : started) {
    g.scope = s.group->name;
    const ValueId own = wait_exchange(g, s.exchange, s.own, s.buffer);
    const Place place{s.group->gradients, bytes_of(s.part->state_begin)};
    if (!plan.sums_up()) {
      g.bind(own, place);
      continue;
    }
    const ValueId sum = g.persistent("gradients of " + s.group->name, g.shape(own), place);
    g.assign(sum, program::operator_(g, "add", sum, own));
  }
}

namespace {

// One coming and going of a part's parameters.
struct Visit {
  int32_t group = 0;
  const Part* part = nullptr;
  bool backward = false;
  size_t first_use = 0;  // op
  ValueId buffer = 0;
  std::map<const Parameter*, ValueId> views;
  size_t start = 0, wait = 0;  // ops
};

// Which parts are needed when, in the order of their first use; the uses now read views of their buffers.
std::vector<Visit> visits(Graph& g, const Plan& plan,
                          const std::map<ValueId, const Parameter*>& parameter_of) {
  std::vector<Visit> all;
  const size_t n = g.ops().size();
  for (size_t i = 0; i < n; ++i) {
    const bool backward = g.ops()[i].backward;
    for (size_t k = 0; k < g.ops()[i].in.size(); ++k) {
      const auto at = parameter_of.find(g.ops()[i].in[k]);
      if (at == parameter_of.end()) continue;
      const Parameter& p = *at->second;
      const Part& part = part_of(plan, p);
      auto visit = std::find_if(all.begin(), all.end(), [&](const Visit& v) {
        return v.part == &part && v.backward == backward;
      });
      if (visit == all.end()) {
        all.push_back({p.group, &part, backward, i, 0, {}, 0, 0});
        visit = all.end() - 1;
        visit->buffer = g.buffer(make_shape(PLAIT_F32, {part.elements}));
      }
      ValueId& view = visit->views[&p];
      if (!view) view = g.part(visit->buffer, bytes_of(p.flat - part.begin), g.shape(at->first));
      Op& op = g.ops()[i];
      op.in[k] = view;
      if (op.rule->is_view) g.value(op.out[0]).same_as = view;
    }
  }
  return all;
}

}  // namespace

void gather_parameters(Graph& g, Plan& plan, const std::map<const Parameter*, ValueId>& values) {
  std::map<ValueId, const Parameter*> parameter_of;
  for (const auto& [p, v] : values)
    if (v && p->group >= 0) parameter_of[v] = p;
  const size_t n = g.ops().size();
  std::vector<Visit> all = visits(g, plan, parameter_of);
  for (Visit& v : all) {
    const Group& group = plan.groups[static_cast<size_t>(v.group)];
    g.scope = group.name;
    const int32_t exchange = add_exchange(plan,
                                          "parameters of " + group.name + ", part " +
                                              std::to_string(v.part - group.parts.data()) +
                                              (v.backward ? ", for the backward pass" : ""),
                                          topology::Axis::kData, PLAIT_COMM_ALL_GATHER);
    const ValueId own =
        g.persistent("parameters of " + group.name, make_shape(PLAIT_F32, {v.part->own_elements}),
                     {group.parameters, bytes_of(v.part->state_begin)});
    v.start = g.ops().size();
    const ValueId gathered = start_all_gather(g, plan, exchange, {own}, v.buffer);
    v.wait = g.ops().size();
    const ValueId there = wait_exchange(g, exchange, gathered);
    for (const auto& [p, view] : v.views) g.value(view).same_as = there;
  }
  // A part's exchange starts when the part before it begins to be used.
  std::vector<Op> ordered;
  const auto emit = [&](size_t op) { ordered.push_back(std::move(g.ops()[op])); };
  size_t next = 0;  // visit
  for (size_t i = 0; i < n; ++i) {
    for (; next < all.size() && all[next].first_use == i; ++next) {
      if (next == 0) emit(all[0].start);
      emit(all[next].wait);
      if (next + 1 < all.size()) emit(all[next + 1].start);
    }
    emit(i);
  }
  g.ops() = std::move(ordered);
  program::finish(g);
}

}  // namespace plait::plan

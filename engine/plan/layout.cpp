#include "engine/plan/layout.hpp"

#include <algorithm>

#include "engine/program/shape.hpp"

namespace plait::plan {
namespace {

constexpr int64_t kLine = 16;  // elements: 64 bytes, to which every operand is aligned

// Replicas share a part evenly, in whole lines.
int64_t unit_of(const Plan& plan) { return kLine * plan.grid.data(); }

int64_t elements_of(const Plan& plan, int32_t segment) {
  return static_cast<int64_t>(plan.storage.segments()[static_cast<size_t>(segment)].bytes / 4);
}

bool full(const Plan& plan, const Group& group) {
  if (group.parts.empty()) return true;
  if (plan.grid.data() == 1) return false;
  const double bytes =
      4.0 * static_cast<double>(elements_of(plan, group.gradients) - group.parts.back().begin);
  return bytes >= plan.experiment.topology.bucket * (1 << 20);
}

}  // namespace

void place_parameter(Plan& plan, Parameter& p) {
  Group& g = plan.groups[static_cast<size_t>(p.group)];
  const auto bytes = static_cast<uint64_t>(topology::elements(p.box)) * 4;
  const bool opens = full(plan, g);
  const auto alignment = static_cast<uint64_t>(opens ? unit_of(plan) : kLine) * 4;
  p.value = plan.storage.take(g.parameters, bytes, alignment);
  p.gradient = plan.storage.take(g.gradients, bytes, alignment);
  if (opens) g.parts.push_back({.begin = static_cast<int64_t>(p.value.offset / 4)});
}

void finish_groups(Plan& plan) {
  const bool shared = plan.experiment.topology.zero > 0;
  const int64_t replicas = plan.grid.data();
  for (Group& g : plan.groups) {
    const auto alignment = static_cast<uint64_t>(unit_of(plan)) * 4;
    plan.storage.take(g.parameters, 0, alignment);
    plan.storage.take(g.gradients, 0, alignment);
    g.elements = elements_of(plan, g.parameters);
    g.own_elements = 0;
    for (size_t i = 0; i < g.parts.size(); ++i) {
      Part& part = g.parts[i];
      const int64_t end = i + 1 < g.parts.size() ? g.parts[i + 1].begin : g.elements;
      part.elements = end - part.begin;
      part.own_elements = shared ? part.elements / replicas : part.elements;
      part.own_begin = part.begin + (shared ? plan.at.data * part.own_elements : 0);
      part.state_begin = g.own_elements;
      g.own_elements += part.own_elements;
    }
  }
}

std::vector<Held> held_value(const Plan&, const Parameter& p) { return {{p.box, p.value}}; }

std::vector<Held> held_state(const Plan& plan, const Parameter& p, const State& state) {
  const Group& g = plan.groups[static_cast<size_t>(p.group)];
  const auto begin = static_cast<int64_t>(p.value.offset / 4);
  const int64_t end = begin + topology::elements(p.box);
  std::vector<Held> held;
  for (const Part& part : g.parts) {
    const topology::Range own =
        topology::intersect({part.own_begin, part.own_begin + part.own_elements}, {begin, end});
    if (own.empty()) continue;
    int64_t at = part.state_begin + own.begin - part.own_begin;
    for (const topology::Box& box :
         topology::flat_boxes(p.box, {own.begin - begin, own.end - begin})) {
      held.push_back({box, {state.segment, static_cast<uint64_t>(at) * 4}});
      at += topology::elements(box);
    }
  }
  return held;
}

void for_each_run(const plait_shape& global, const topology::Box& box,
                  const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  const topology::Extent dims = program::dims_of(global);
  if (topology::elements(box) == 0) return;
  // Trailing dimensions that the block spans fully make one run with the dimension before them.
  size_t inner = dims.size();
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= box.extent[inner];
    if (box.extent[inner] != dims[inner]) break;
  }
  std::vector<int64_t> at(box.offset);
  for (int64_t first = 0; first < topology::elements(box); first += run) {
    int64_t flat = 0;
    for (size_t d = 0; d < dims.size(); ++d) flat = flat * dims[d] + at[d];
    visit(flat, first, run);
    for (size_t d = inner; d-- > 0;) {
      if (++at[d] < box.offset[d] + box.extent[d]) break;
      at[d] = box.offset[d];
    }
  }
}

}  // namespace plait::plan

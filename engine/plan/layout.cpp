#include "engine/plan/layout.hpp"

#include <algorithm>

#include "engine/program/shape.hpp"

namespace plait::plan {
namespace {

constexpr int64_t kLine = 16;  // elements: 64 bytes, to which every operand is aligned

// Replicas share a part evenly, in whole lines.
int64_t unit_of(const Plan& plan) { return kLine * plan.grid.data(); }

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

std::string layer_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

// Whether a parameter begins another part: one that would make the last too large, unless it belongs to the layer before. What a
// layer has becomes known at once, so a part of whole layers need not wait for the layer in front of them.
bool opens_part(const Plan& plan, const Group& group, const Parameter& p) {
  // Ranks that hold the same parameters in different stages cut them alike.
  if (group.parts.empty() || !group.tied.empty() || group.parts.back().chunk != p.chunk)
    return true;
  if (plan.grid.data() == 1 || layer_of(p.name) == group.last_layer) return false;
  const int64_t end = group.elements + p.stored;
  const double bytes = 4.0 * static_cast<double>(end - group.parts.back().begin);
  return bytes > plan.experiment.topology.bucket * (1 << 20);
}

// The elements of a parameter that this rank has as its own, which lie in `segment` as states do.
std::vector<Held> held_own(const Plan& plan, const Parameter& p, int32_t segment) {
  const Part& part = part_of(plan, p);
  const int64_t end = p.flat + topology::elements(p.box);
  std::vector<Held> held;
  const topology::Range own =
      topology::intersect({part.own_begin, part.own_begin + part.own_elements}, {p.flat, end});
  if (own.empty()) return held;
  int64_t at = part.state_begin + own.begin - part.own_begin;
  for (const topology::Box& box :
       topology::flat_boxes(p.box, {own.begin - p.flat, own.end - p.flat})) {
    held.push_back({box, {segment, static_cast<uint64_t>(at) * 4}});
    at += topology::elements(box);
  }
  return held;
}

// The group of a trained parameter; made when the first one asks for it, on every rank: also on those that hold none of it.
int32_t group_of(Plan& plan, const Parameter& p) {
  size_t m = 0;
  while (plan.experiment.models[m].name != p.model) ++m;
  const config::ModelConfig& model = plan.experiment.models[m];
  const config::OptimizerConfig& optimizer = *model.optimizer;
  const auto* own = p.setting < 0 ? nullptr : &optimizer.groups[static_cast<size_t>(p.setting)];
  Group g;
  g.name = own ? own->path : model.path + ".default";
  g.split = p.split();
  if (p.holders.size() > 1) g.tied = p.holders;
  for (size_t i = 0; i < plan.groups.size(); ++i)
    if (plan.groups[i].name == g.name && plan.groups[i].split == g.split &&
        plan.groups[i].tied == g.tied)
      return static_cast<int32_t>(i);
  g.model = static_cast<int32_t>(m);
  g.rate = own ? own->rate : optimizer.rate;
  g.decay = own ? own->decay : optimizer.decay;
  const auto& schedule = own ? own->schedule : optimizer.schedule;
  g.schedule = schedule ? &*schedule : optimizer.schedule ? &*optimizer.schedule : nullptr;
  g.parameters = plan.storage.add(segment_name(g) + ".parameters", Category::kParameters);
  g.gradients = plan.storage.add(segment_name(g) + ".gradients", Category::kGradients);
  plan.groups.push_back(std::move(g));
  return static_cast<int32_t>(plan.groups.size() - 1);
}

// Behind the parameters of its group so far; opens another part where the last one is full.
void place_parameter(Plan& plan, Parameter& p) {
  Group& g = plan.groups[static_cast<size_t>(p.group)];
  const bool opens = opens_part(plan, g, p);
  g.last_layer = layer_of(p.name);
  p.flat = round_up(g.elements, opens ? unit_of(plan) : kLine);
  g.elements = p.flat + p.stored;
  if (opens) g.parts.push_back({.begin = p.flat, .chunk = p.chunk});
  p.part = static_cast<int32_t>(g.parts.size()) - 1;
  // What is here only in part, or for a while, gets its place from the rewrites of zero.hpp.
  if (plan.zero < 3) p.value = {g.parameters, static_cast<uint64_t>(p.flat) * 4};
  if (plan.zero < 2) p.gradient = {g.gradients, static_cast<uint64_t>(p.flat) * 4};
}

// After the last parameter: closes the parts and shares them out.
void finish_groups(Plan& plan) {
  const int64_t replicas = plan.grid.data();
  for (Group& g : plan.groups) {
    g.elements = round_up(g.elements, unit_of(plan));
    g.own_elements = 0;
    for (size_t i = 0; i < g.parts.size(); ++i) {
      Part& part = g.parts[i];
      const int64_t end = i + 1 < g.parts.size() ? g.parts[i + 1].begin : g.elements;
      part.elements = end - part.begin;
      part.own_elements = plan.zero > 0 ? part.elements / replicas : part.elements;
      part.own_begin = part.begin + (plan.zero > 0 ? plan.at.data * part.own_elements : 0);
      part.state_begin = g.own_elements;
      g.own_elements += part.own_elements;
    }
    const auto bytes = [](int64_t elements) { return static_cast<uint64_t>(elements) * 4; };
    plan.storage.take(g.parameters, bytes(plan.zero < 3 ? g.elements : g.own_elements));
    plan.storage.take(g.gradients, bytes(plan.zero < 2 ? g.elements : g.own_elements));
    if (replicas > 1 && plan.zero == 0)
      plan.storage.reduce_along(g.gradients, topology::Axis::kData);
  }
}

}  // namespace

std::string segment_name(const Group& g) {
  std::string name = g.name + (g.split ? ".split" : "");
  for (size_t i = 0; i < g.tied.size(); ++i)
    name += (i == 0 ? ".tied-" : "-") + std::to_string(g.tied[i]);
  return name;
}

void lay_out_parameters(Plan& plan) {
  int32_t frozen = -1;
  for (Parameter& p : plan.parameters) {
    const bool here = p.held_by(plan.at.pipeline);
    if (!p.frozen) {
      p.group = group_of(plan, p);
      if (here) place_parameter(plan, p);
    } else if (here) {
      if (frozen < 0) frozen = plan.storage.add("frozen.parameters", Category::kParameters);
      p.value = plan.storage.take(frozen, static_cast<uint64_t>(p.stored) * 4);
    }
  }
  finish_groups(plan);
}

const Part& part_of(const Plan& plan, const Parameter& p) {
  return plan.groups[static_cast<size_t>(p.group)].parts[static_cast<size_t>(p.part)];
}

Place own_parameters(const Plan& plan, const Group& g, const Part& part) {
  return {g.parameters,
          static_cast<uint64_t>(plan.zero < 3 ? part.own_begin : part.state_begin) * 4};
}

Place own_gradients(const Plan& plan, const Group& g, const Part& part) {
  return {g.gradients,
          static_cast<uint64_t>(plan.zero < 2 ? part.own_begin : part.state_begin) * 4};
}

std::vector<Held> held_value(const Plan& plan, const Parameter& p) {
  if (!p.held_by(plan.at.pipeline) || topology::elements(p.box) == 0) return {};
  if (p.group < 0 || plan.zero < 3) return {{p.box, p.value}};
  return held_own(plan, p, plan.groups[static_cast<size_t>(p.group)].parameters);
}

std::vector<Held> held_state(const Plan& plan, const Parameter& p, const State& state) {
  if (!p.held_by(plan.at.pipeline)) return {};
  return held_own(plan, p, state.segment);
}

bool is_whole(const Plan& plan, const Parameter& p) {
  return !p.split() && (p.group < 0 || plan.zero < 3) &&
         p.holders.size() == static_cast<size_t>(plan.grid.pipeline());
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

#include "engine/plan/layout.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/plan/frozen_numbers.hpp"
#include "engine/plan/halves.hpp"
#include "engine/plan/whole_parameters.hpp"
#include "engine/program/shape.hpp"

namespace plait::plan {
namespace {

// So many elements that in each of a group's buffers a multiple of them is aligned as every operand
// is.
int64_t line_of(const Plan& plan) {
  constexpr uint64_t kLine = 64;  // bytes
  const Precision& p = plan.precision;
  uint64_t least = kLine;
  for (const uint32_t dtype : {p.parameter, p.gradient, p.state, p.is_mixed() ? p.low : p.state,
                               p.low_states ? kLowState : p.state})
    least = std::min(least, program::dtype_bytes(dtype));
  return static_cast<int64_t>(kLine / least);
}

// A bucket is sharded evenly over the replicas, in whole cache lines.
int64_t unit_of(const Plan& plan) { return line_of(plan) * plan.grid.data(); }

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

std::string layer_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

// True if a parameter should start a new bucket: the last one would become too large, unless it
// belongs to the same layer as the one before. What a layer has becomes known at once, so a bucket
// of whole layers need not wait for the layer in front of them.
bool starts_bucket(const Plan& plan, const ParameterGroup& group, const std::string& last_layer,
                   const Parameter& p) {
  const uint32_t dtype = p.frozen ? group.parameters.dtype : group.gradients.dtype;
  // Ranks that hold the same parameters in different stages cut them alike.
  if (group.buckets.empty() || !group.tied.empty() || group.buckets.back().chunk != p.chunk)
    return true;
  if (plan.grid.data() == 1 || layer_of(p.name) == last_layer) return false;
  const int64_t end = group.elements + p.stored_elements;
  const uint64_t bytes = program::bytes_of(end - group.buckets.back().begin, dtype);
  return static_cast<double>(bytes) > plan.experiment.topology.bucket_mib * (1 << 20);
}

// The elements of a parameter that a replica has as its own, which lie in `buffer` as states do.
std::vector<LocalBlock> owned_blocks(const Plan& plan, const Parameter& p, const FlatBuffer& buffer,
                                     int32_t replica) {
  const Bucket& bucket = bucket_of(plan, p);
  const int64_t end = p.flat_offset + topology::elements(p.box);
  std::vector<LocalBlock> local;
  const topology::Range shard = shard_of(plan, bucket, replica),
                        own = topology::intersect(shard, {p.flat_offset, end});
  if (own.empty()) return local;
  int64_t at = bucket.state_begin + own.begin - shard.begin;
  for (const topology::Box& box :
       topology::flat_boxes(p.box, {own.begin - p.flat_offset, own.end - p.flat_offset})) {
    local.push_back({box, buffer.at(at), buffer.dtype});
    at += topology::elements(box);
  }
  return local;
}

// What this rank has of a state tensor: along its sharded dimension, what it has of the parameter.
topology::Box state_box(const Parameter& p, const TensorState& s) {
  topology::Box box = topology::full_box(program::dims_of(s.shape));
  if (s.shard_dim < 0) return box;
  const auto own = static_cast<size_t>(s.shard_dim), along = static_cast<size_t>(p.shard_dim);
  box.offset[own] = p.box.offset[along];
  box.extent[own] = p.box.extent[along];
  return box;
}

// The group of a trained parameter; made when the first one asks for it, on every rank: also on
// those that hold none of it.
int32_t trained_group(PlanDraft& plan, const Parameter& p) {
  size_t m = 0;
  while (plan.experiment.models[m].name != p.model) ++m;
  const config::ModelConfig& model = plan.experiment.models[m];
  const config::OptimizerConfig& optimizer = *model.optimizer;
  const auto* own = p.setting < 0 ? nullptr : &optimizer.groups[static_cast<size_t>(p.setting)];
  ParameterGroup g;
  g.name = own ? own->path : model.path + ".default";
  g.sharded = p.sharded;
  g.scope = p.scope;
  g.read_low = p.read_low;
  g.rounds = plan.precision.low_weights && p.shape.dtype == plan.precision.low;
  g.low_states = plan.precision.low_states && p.shape.ndim >= 2;
  g.adapter = norm_of(plan, p);
  if (p.holders.size() > 1) g.tied = p.holders;
  for (size_t i = 0; i < plan.groups.size(); ++i)
    if (plan.groups[i].name == g.name && plan.groups[i].sharded == g.sharded &&
        plan.groups[i].scope == g.scope && plan.groups[i].read_low == g.read_low &&
        plan.groups[i].rounds == g.rounds && plan.groups[i].low_states == g.low_states &&
        plan.groups[i].tied == g.tied && plan.groups[i].adapter == g.adapter)
      return static_cast<int32_t>(i);
  g.model = static_cast<int32_t>(m);
  g.setting = p.setting;
  const std::vector<GradientNorm>& norms = plan.models[m].norms;
  while (norms.at(g.norm).adapter != g.adapter) ++g.norm;
  g.learning_rate = own ? own->learning_rate : optimizer.learning_rate;
  g.weight_decay = own ? own->weight_decay : optimizer.weight_decay;
  const auto& schedule = own ? own->schedule : optimizer.schedule;
  g.schedule = schedule ? schedule : optimizer.schedule;
  const bool split = plan.precision.split && g.read_low && plan.zero < 3;
  if (!split)
    g.parameters = plan.storage.add_flat(segment_name(g) + ".parameters", Category::kParameters,
                                         p.shape.dtype);
  g.gradients = plan.storage.add_flat(segment_name(g) + ".gradients", Category::kGradients,
                                      plan.precision.gradient);
  if (g.read_low && plan.zero < 3)
    g.low = plan.storage.add_flat(segment_name(g) + ".low",
                                  split ? Category::kParameters : Category::kLowParameters,
                                  plan.precision.low);
  if (split)
    g.rest = plan.storage.add_flat(segment_name(g) + ".rest", Category::kParameters, kRestType);
  plan.groups.push_back(std::move(g));
  return static_cast<int32_t>(plan.groups.size() - 1);
}

// What is sharded, or gathered only for a while, gets its buffer from the rewrites of zero.hpp.
void set_buffers(const Plan& plan, const ParameterGroup& g, Parameter& p) {
  if (plan.zero < 3 && !g.is_split()) p.value = g.parameters.at(p.flat_offset);
  if (g.low.exists()) p.low = g.low.at(p.flat_offset);
  if (g.is_split()) p.rest = g.rest.at(rest_entries(p.flat_offset));
  if (plan.zero < 2) p.gradient = g.gradients.at(p.flat_offset);
}

// Replicas own whole parameters of the group, because its optimizer must see them so.
bool owns_whole(const Plan& plan, const ParameterGroup& g) {
  return plan.zero > 0 && g.scope == PLAIT_SCOPE_TENSOR;
}

// Behind the parameters of the group so far; opens another bucket where the last one is full.
// last_layer: of the parameter that the group got before.
void append_to(const Plan& plan, ParameterGroup& g, Parameter& p, std::string& last_layer) {
  const bool starts = starts_bucket(plan, g, last_layer, p);
  last_layer = layer_of(p.name);
  p.flat_offset = round_up(g.elements, starts ? unit_of(plan) : line_of(plan));
  g.elements = p.flat_offset + p.stored_elements;
  if (starts) g.buckets.push_back({.begin = p.flat_offset, .chunk = p.chunk});
  p.bucket = static_cast<int32_t>(g.buckets.size()) - 1;
}

// The next parameters of a group, whole ones for each replica.
void pack(PlanDraft& plan, ParameterGroup& g, const std::vector<Parameter*>& next,
          std::vector<int64_t>& loads) {
  std::vector<PackItem> items;
  for (size_t i = 0; i < next.size(); ++i)
    // A line at least, so that each has a place of its own within its owner's shard.
    items.push_back({round_up(std::max<int64_t>(next[i]->stored_elements, 1), line_of(plan)),
                     i > 0 && layer_of(next[i]->name) != layer_of(next[i - 1]->name)});
  const auto bytes = static_cast<int64_t>(plan.experiment.topology.bucket_mib * (1 << 20));
  const PackLimits limits{plan.grid.data(),
                          bytes / static_cast<int64_t>(program::dtype_bytes(g.gradients.dtype))};
  for (const PackedBucket& packed : pack_whole(items, limits, loads)) {
    const int64_t begin = round_up(g.elements, unit_of(plan));
    g.buckets.push_back({.begin = begin, .chunk = next[0]->chunk, .owner = packed.owner});
    for (size_t i = 0; i < packed.members.size(); ++i) {
      Parameter& p = *next[packed.members[i]];
      p.bucket = static_cast<int32_t>(g.buckets.size()) - 1;
      p.flat_offset = begin + packed.places[i].offset;
      set_buffers(plan, g, p);
    }
    g.elements = begin + packed.elements(limits.replicas);
  }
}

// The groups whose parameters each belong to one replica. `loads` carries over from group to group,
// but not for tied ones: ranks that hold the same parameters in different stages place them alike.
void pack_groups(PlanDraft& plan) {
  std::vector<int64_t> loads(static_cast<size_t>(plan.grid.data()), 0);
  for (size_t k = 0; k < plan.groups.size(); ++k) {
    ParameterGroup& g = plan.groups[k];
    if (!owns_whole(plan, g)) continue;
    std::vector<int64_t> of_tied(loads.size(), 0);
    std::vector<Parameter*> next;
    const auto flush = [&] {
      if (!next.empty()) pack(plan, g, std::exchange(next, {}), g.tied.empty() ? loads : of_tied);
    };
    for (Parameter& p : plan.parameters) {
      if (p.group != static_cast<int32_t>(k) || !p.held_by(plan.at.pipeline)) continue;
      if (!g.tied.empty() || (!next.empty() && next.back()->chunk != p.chunk)) flush();
      next.push_back(&p);
    }
    flush();
  }
}

// After the last parameter: closes the buckets and shards them.
void shard_buckets(const Plan& plan, ParameterGroup& g) {
  g.elements = round_up(g.elements, unit_of(plan));
  g.shard_elements = 0;
  for (size_t i = 0; i < g.buckets.size(); ++i) {
    Bucket& bucket = g.buckets[i];
    const int64_t end = i + 1 < g.buckets.size() ? g.buckets[i + 1].begin : g.elements;
    bucket.elements = end - bucket.begin;
    const topology::Range shard = shard_of(plan, bucket, plan.at.data);
    bucket.shard_begin = shard.begin;
    bucket.shard_elements = shard.size();
    bucket.state_begin = g.shard_elements;
    g.shard_elements += bucket.shard_elements;
  }
}

void close_groups(PlanDraft& plan) {
  for (ParameterGroup& g : plan.frozen_groups) {
    shard_buckets(plan, g);
    plan.storage.append(g.parameters, g.shard_elements);
  }
  for (ParameterGroup& g : plan.groups) {
    shard_buckets(plan, g);
    if (!g.is_split())
      plan.storage.append(g.parameters, plan.zero < 3 ? g.elements : g.shard_elements);
    if (g.low.exists()) plan.storage.append(g.low, g.elements);
    if (g.is_split()) plan.storage.append(g.rest, rest_entries(g.elements));
    plan.storage.append(g.gradients, plan.zero < 2 ? g.elements : g.shard_elements);
    if (plan.grid.data() > 1 && plan.zero == 0)
      plan.storage.reduce_along(g.gradients.segment, topology::Axis::kData);
  }
}

}  // namespace

std::string norm_of(const Plan& plan, const Parameter& p) {
  for (const config::ModelConfig& m : plan.experiment.models)
    if (m.name == p.model) return m.adapter_field.empty() ? "" : p.adapter;
  return {};
}

std::string title_of(const Plan& plan, const ParameterGroup& g) {
  const auto& models = plan.experiment.models;
  if (g.setting < 0) return g.name;
  const config::ModelConfig& model = models[static_cast<size_t>(g.model)];
  const std::string& own =
      model.optimizer->groups[static_cast<size_t>(g.setting)].keys.get_text("name");
  if (own.empty()) return g.name;
  return models.size() > 1 ? model.name + "." + own : own;
}

std::string segment_name(const ParameterGroup& g) {
  std::string name = g.name + (g.adapter.empty() ? "" : "." + g.adapter);
  if (g.scope == PLAIT_SCOPE_TENSOR) name += ".tensors";
  if (g.read_low) name += ".products";
  if (g.rounds) name += ".rounded";
  if (g.low_states) name += ".low_states";
  if (g.sharded) name += ".split";
  for (size_t i = 0; i < g.tied.size(); ++i)
    name += (i == 0 ? ".tied-" : "-") + std::to_string(g.tied[i]);
  return name;
}

namespace {

// The memory of parameters that no update writes.
class FrozenMemory {
 public:
  explicit FrozenMemory(PlanDraft& plan) : plan_(plan) {}
  // On every rank: all of them have the same segments.
  void add(Parameter& p) {
    if (is_divided(plan_, p)) p.frozen_group = group_of(p);
    if (!p.held_by(plan_.at.pipeline)) return;
    if (p.is_quantized()) return place_numbers(p);
    if (p.frozen_group < 0) return place(p);
    ParameterGroup& g = plan_.frozen_groups[static_cast<size_t>(p.frozen_group)];
    append_to(plan_, g, p, last_layers_[p.frozen_group]);
  }

 private:
  int32_t group_of(const Parameter& p) {
    const std::string name = p.model + ".frozen." + program::dtype_name(p.shape.dtype);
    for (size_t i = 0; i < plan_.frozen_groups.size(); ++i)
      if (plan_.frozen_groups[i].name == name) return static_cast<int32_t>(i);
    ParameterGroup g;
    g.name = name;
    g.parameters =
        plan_.storage.add_flat(name + ".parameters", Category::kParameters, p.shape.dtype);
    plan_.frozen_groups.push_back(std::move(g));
    return static_cast<int32_t>(plan_.frozen_groups.size() - 1);
  }
  void place(Parameter& p) {
    const bool split = plan_.precision.split && p.read_low;
    if (!split)
      p.value = take(whole_, "frozen.parameters", Category::kParameters, p.stored_elements,
                     p.shape.dtype);
    if (p.read_low)
      p.low = take(low_, "frozen.low", split ? Category::kParameters : Category::kLowParameters,
                   p.stored_elements, plan_.precision.low);
    if (split)
      p.rest = take(rest_, "frozen.rest", Category::kParameters, rest_entries(p.stored_elements),
                    kRestType);
  }
  void place_numbers(Parameter& p) {
    const auto of = [&](const plait_shape& shape) {
      return take(numbers_, "frozen.numbers", Category::kParameters, program::elements(shape),
                  shape.dtype);
    };
    p.numbers = of(numbers_shape(plan_, p));
    p.scales = of(scales_shape(plan_, p));
  }
  BufferRef take(int32_t& segment, const char* name, Category category, int64_t n, uint32_t dtype) {
    if (segment < 0) segment = plan_.storage.add(name, category);
    return plan_.storage.allocate(segment, program::bytes_of(n, dtype));
  }
  PlanDraft& plan_;
  int32_t whole_ = -1, low_ = -1, rest_ = -1, numbers_ = -1;
  std::map<int32_t, std::string> last_layers_;  // by group
};

}  // namespace

void lay_out_parameters(PlanDraft& plan) {
  FrozenMemory frozen(plan);
  std::map<int32_t, std::string> last_layers;  // by group
  for (Parameter& p : plan.parameters) {
    const bool here = p.held_by(plan.at.pipeline);
    if (!p.frozen) {
      p.group = trained_group(plan, p);
      ParameterGroup& g = plan.groups[static_cast<size_t>(p.group)];
      if (!here || owns_whole(plan, g)) continue;
      append_to(plan, g, p, last_layers[p.group]);
      set_buffers(plan, g, p);
    } else {
      frozen.add(p);
    }
  }
  pack_groups(plan);
  close_groups(plan);
}

topology::Range shard_of(const Plan& plan, const Bucket& bucket, int32_t replica) {
  const int64_t begin = bucket.begin;
  if (bucket.owner >= 0) return {begin, begin + (bucket.owner == replica ? bucket.elements : 0)};
  if (plan.zero == 0) return {begin, begin + bucket.elements};
  const int64_t n = bucket.elements / plan.grid.data();
  return {begin + replica * n, begin + (replica + 1) * n};
}

const ParameterGroup& group_of(const Plan& plan, const Parameter& p) {
  return p.frozen ? plan.frozen_groups[static_cast<size_t>(p.frozen_group)]
                  : plan.groups[static_cast<size_t>(p.group)];
}

const Bucket& bucket_of(const Plan& plan, const Parameter& p) {
  return group_of(plan, p).buckets[static_cast<size_t>(p.bucket)];
}

std::vector<std::vector<const Parameter*>> bucket_members(const Plan& plan, size_t group) {
  std::vector<std::vector<const Parameter*>> all(plan.groups[group].buckets.size());
  for (const Parameter& p : plan.parameters)
    if (p.group == static_cast<int32_t>(group) && p.held_by(plan.at.pipeline))
      all[static_cast<size_t>(p.bucket)].push_back(&p);
  for (auto& members : all)
    std::sort(members.begin(), members.end(), [](const Parameter* a, const Parameter* b) {
      return a->flat_offset < b->flat_offset;
    });
  return all;
}

BufferRef parameter_shard(const Plan& plan, const ParameterGroup& g, const Bucket& bucket) {
  return g.parameters.at(plan.zero < 3 ? bucket.shard_begin : bucket.state_begin);
}

BufferRef gradient_shard(const Plan& plan, const ParameterGroup& g, const Bucket& bucket) {
  return g.gradients.at(plan.zero < 2 ? bucket.shard_begin : bucket.state_begin);
}

bool is_owned(const Plan& plan, const Parameter& p) {
  if (!p.held_by(plan.at.pipeline)) return false;
  const Bucket& bucket = bucket_of(plan, p);
  return p.flat_offset >= bucket.shard_begin &&
         p.flat_offset < bucket.shard_begin + bucket.shard_elements;
}

plait_shape local_shape(const Plan& plan, plait_shape shape, int32_t shard_dim) {
  const int64_t ranks = plan.grid.tensor();
  if (shard_dim >= 0) shape.dims[shard_dim] = (shape.dims[shard_dim] + ranks - 1) / ranks;
  return shape;
}

namespace {

NumberedBlock numbered_block(const Plan& plan, const Parameter& p) {
  return {p.numbers, p.scales, row_of(plan, p)};
}

}  // namespace

bool is_divided(const Plan& plan, const Parameter& p) {
  // A plan that only generates would gather all of them for every token.
  const bool only_read = p.frozen && plan.experiment.generate.only;
  return plan.zero == 3 && !p.is_quantized() && !only_read;
}

std::vector<LocalBlock> stored_blocks(const Plan& plan, const Parameter& p) {
  std::vector<LocalBlock> all = local_parameter_blocks(plan, p);
  if (all.empty() || !p.is_quantized()) return all;
  const auto of = [](const plait_shape& shape, BufferRef at) {
    return LocalBlock{topology::full_box(program::dims_of(shape)), at, shape.dtype};
  };
  return {of(numbers_shape(plan, p), p.numbers), of(scales_shape(plan, p), p.scales)};
}

std::vector<LocalBlock> local_parameter_blocks(const Plan& plan, const Parameter& p) {
  return local_parameter_blocks(plan, p, plan.at.data);
}

std::vector<LocalBlock> local_parameter_blocks(const Plan& plan, const Parameter& p,
                                               int32_t replica) {
  if (!p.held_by(plan.at.pipeline) || topology::elements(p.box) == 0) return {};
  if (p.is_split()) return {{p.box, p.low, p.shape.dtype, p.rest}};
  if (p.is_quantized()) return {{p.box, {}, p.shape.dtype, {}, numbered_block(plan, p)}};
  if (!is_divided(plan, p)) return {{p.box, p.value, p.shape.dtype}};
  return owned_blocks(plan, p, group_of(plan, p).parameters, replica);
}

std::vector<StateBlocks> local_states(const Plan& plan, const Parameter& p) {
  return local_states(plan, p, plan.at.data);
}

std::vector<StateBlocks> local_states(const Plan& plan, const Parameter& p, int32_t replica) {
  std::vector<StateBlocks> all;
  if (p.group < 0) return all;
  const bool here = p.held_by(plan.at.pipeline);
  for (const OptimizerState& s : plan.groups[static_cast<size_t>(p.group)].states) {
    all.push_back({s.name, s.initial, p.shape, p.sharded, {}});
    if (here) all.back().blocks = owned_blocks(plan, p, s.values, replica);
  }
  for (const TensorState& s : p.states) {
    all.push_back({s.name, s.initial, s.shape, s.shard_dim >= 0, {}});
    if (s.at.segment >= 0) all.back().blocks = {{state_box(p, s), s.at, s.shape.dtype}};
  }
  return all;
}

bool is_fully_local(const Plan& plan, const Parameter& p) {
  return !p.sharded && !is_divided(plan, p) &&
         p.holders.size() == static_cast<size_t>(plan.grid.pipeline());
}

void for_each_run(const plait_shape& global, const topology::Box& box,
                  const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  topology::for_each_run(program::dims_of(global), box, visit);
}

}  // namespace plait::plan

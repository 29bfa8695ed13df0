#include "engine/plan/update.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/plugin_outputs.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/plan/gradient_norms.hpp"
#include "engine/plan/halves.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/loss_scale.hpp"
#include "engine/plan/loss_weights.hpp"
#include "engine/plan/low_copies.hpp"
#include "engine/plan/method_updates.hpp"
#include "engine/plan/padding.hpp"
#include "engine/plan/parameter_scope.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/plan/tensor_update.hpp"
#include "engine/program/c_builder.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {
namespace {

using program::attr;
using program::binary;
using program::Graph;
using program::make_shape;
using program::ValueId;

std::unique_ptr<Graph> new_graph(const Plan& plan) {
  return std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar);
}

// What an optimizer reads and writes of a bucket: the own elements.
struct BucketValues {
  ValueId parameter, gradient;
  ValueId low = 0;  // copy of the parameter; 0: none, or made when the replicas have gathered it
  const RoundedElements* rounded = nullptr;  // which they are, where something has 16 bits
  SplitValue* split = nullptr;  // it lies in these halves; they become what they are then
};

// What an optimizer makes of a tensor has its shape: a scalar would be spread over all elements.
void check_updated(const Graph& g, const PluginCall& at, const std::string& what, ValueId made,
                   ValueId before) {
  const plait_shape &found = g.shape(made), &expected = g.shape(before);
  if (program::same_dims(found, expected) && program::is_float(found.dtype)) return;
  fail(PLAIT_ERR_PLUGIN, "[plugin " + std::string(at.plugin) + "] " + text_of(at) + " set " + what +
                             " to " + program::text(found) + ", expected " +
                             program::text(expected) + "; tell its author");
}

// The optimizer's rule, applied to a bucket. Its states are added to the group when the first
// bucket asks for them. Returns the parameter's own elements as they are then.
ValueId write_bucket(Graph& g, PlanDraft& plan, ParameterGroup& group, const Bucket& bucket,
                     const BucketValues& values, const StepScale& common) {
  const auto [item, config, plugin] = optimizer_of(plan, group);
  std::vector<ValueId> current(group.states.size(), 0), read(current), next(current);
  const auto index_of = [&](const std::string& name) {
    const auto at = std::find_if(group.states.begin(), group.states.end(),
                                 [&](const OptimizerState& s) { return s.name == name; });
    return static_cast<size_t>(at - group.states.begin());
  };
  program::BuildHooks hooks;
  hooks.training = true;
  hooks.elementwise_only = true;
  hooks.state = [&](const std::string& name, double initial) {
    const size_t i = index_of(name);
    if (i == group.states.size()) {
      FlatBuffer values =
          plan.storage.add_flat(segment_name(group) + "." + name, Category::kOptimizer,
                                group.low_states ? kLowState : plan.precision.state);
      plan.storage.append(values, group.shard_elements);
      group.states.push_back({name, initial, values});
      for (auto* of : {&current, &read, &next}) of->push_back(0);
    }
    if (current[i] == 0) {
      current[i] = flat(g, group.name + "." + name, group.states[i].values, bucket.state_begin,
                        bucket.shard_elements);
      read[i] = g.as_type(current[i], plan.precision.state);
    }
    return read[i];
  };
  hooks.set_state = [&](const std::string& name, ValueId v) {
    const size_t i = index_of(name);
    if (i == group.states.size() || current[i] == 0)
      fail_invalid("[" + g.scope + "] set_state('" + name + "') before state('" + name + "')");
    next[i] = v;
  };
  program::CBuilder builder(g, hooks);
  const plait_shape scalar = scalar_of(plan);
  const plait_update update{sizeof(plait_update),
                            g.as_type(values.parameter, plan.precision.parameter),
                            binary(g, "mul", values.gradient, common.scale),
                            g.persistent("learning_rate", scalar, group.learning_rate_at),
                            g.persistent("schedule_factor", scalar, group.schedule_factor_at),
                            common.step,
                            g.constant(group.weight_decay),
                            PLAIT_SCOPE_ELEMENT,
                            0,
                            nullptr};
  PluginOutputs<ValueId> room(1, 0);
  const PluginCall at{plugin, "build", "optimizer", item.name};
  check_plugin(at, "the update of " + group.name + " (" + config.origin.text() + ")",
               [&] { return item.build(builder.get(), &config.options, &update, room.data()); });
  const std::vector<ValueId> outputs = room.take(at, "outputs, expected");
  program::check_outputs(g, at, outputs);
  const ValueId out = outputs[0];
  check_updated(g, at, "the new parameter", out, values.parameter);
  for (size_t i = 0; i < group.states.size(); ++i)
    if (next[i]) check_updated(g, at, "state '" + group.states[i].name + "'", next[i], current[i]);
  std::vector<NextValue> all{{values.parameter, out}};
  for (size_t i = 0; i < group.states.size(); ++i)
    if (next[i]) all.push_back({current[i], next[i], {group.states[i].name}});
  return assign_if_finite(g, common.finite, all, values.low, &plan, values.rounded, values.split);
}

// Parts of a bucket as an update leaves them. rests: of split parameters, whose other halves are
// `values`. open: those that rules of methods are still to change, by index.
struct Updated {
  std::vector<ValueId> values, rests;
  std::vector<std::pair<size_t, const Parameter*>> open;
};

// The same where a parameter or its states do not lie as f32, a piece at a time.
Updated write_pieces(Graph& g, PlanDraft& plan, ParameterGroup& group, const Bucket& bucket,
                     const std::vector<const Parameter*>& members, const BucketValues& values,
                     const StepScale& common) {
  Updated updated;
  for (BucketPiece& piece : pieces_of(bucket, members)) {
    const auto part = [&](ValueId all) {
      const uint32_t dtype = g.shape(all).dtype;
      return g.view(all, program::bytes_of(piece.offset, dtype),
                    make_shape(dtype, {piece.own.shard_elements}));
    };
    BucketValues own{0, part(values.gradient)};
    if (values.low) own.low = part(values.low);
    piece.elements.step = common.count;
    own.rounded = &piece.elements;
    SplitValue halves;
    if (values.split) {
      halves = part_of(g, *values.split, piece.offset,
                       make_shape(plan.precision.parameter, {piece.own.shard_elements}));
      own.parameter = joined(g, halves);
      own.split = &halves;
    } else {
      own.parameter = part(values.parameter);
    }
    updated.values.push_back(write_bucket(g, plan, group, piece.own, own, common));
    if (values.split) updated.rests.push_back(halves.rest);
  }
  return updated;
}

// The parameters of a bucket that this rank updates as a whole, one after the other.
Updated write_tensors(Graph& g, PlanDraft& plan, const ParameterGroup& group, const Bucket& bucket,
                      const std::vector<const Parameter*>& members, const BucketValues& values,
                      const StepScale& common, MethodUpdates& methods) {
  const plait_shape scalar = scalar_of(plan);
  TensorUpdateInputs in;
  in.scale = common.scale;
  in.finite = common.finite;
  in.step = common.step;
  in.count = common.count;
  in.learning_rate = g.persistent("learning_rate", scalar, group.learning_rate_at);
  in.schedule_factor = g.persistent("schedule_factor", scalar, group.schedule_factor_at);
  Updated updated;
  for (const Parameter* p : members) {
    if (!is_owned(plan, *p)) continue;
    const int64_t at = p->flat_offset - bucket.shard_begin;
    plait_shape shape = local_shape(plan, p->shape, p->sharded ? p->shard_dim : -1);
    const auto part = [&](ValueId all) {
      shape.dtype = g.shape(all).dtype;
      return g.view(all, program::bytes_of(at, shape.dtype), shape);
    };
    in.gradient = part(values.gradient);
    SplitValue halves;
    if (values.split) {
      halves = part_of(g, *values.split, at, shape);
      in.parameter = joined(g, halves);
      in.split = &halves;
    } else {
      in.parameter = part(values.parameter);
    }
    if (has_method_rules(plan, *p)) {
      methods.add(*p, in, begin_tensor_update(g, plan, group, *p, in));
      updated.open.emplace_back(updated.values.size(), p);
      updated.values.push_back(0);
    } else {
      updated.values.push_back(write_tensor_update(g, plan, group, *p, in));
    }
    if (values.split) updated.rests.push_back(halves.rest);
  }
  return updated;
}

// The own elements of a bucket's gradients, when the replicas have reduced them; 0: there are none.
ValueId own_gradient(Graph& g, const Plan& plan, const ParameterGroup& group,
                     const Bucket& bucket) {
  if (bucket.owner >= 0 && bucket.gradient_collective >= 0) {
    // The gradient of one parameter, which all replicas have and one needs.
    const ValueId all = wait_collective(
        g, bucket.gradient_collective,
        flat(g, group.name + ".gradients", group.gradients, bucket.begin, bucket.elements));
    return bucket.shard_elements > 0 ? all : 0;
  }
  if (bucket.owner >= 0 && bucket.shard_elements == 0) return 0;
  const ValueId v = g.persistent(group.name + ".gradients",
                                 make_shape(group.gradients.dtype, {bucket.shard_elements}),
                                 gradient_shard(plan, group, bucket));
  return bucket.gradient_collective < 0 ? v : wait_collective(g, bucket.gradient_collective, v);
}

// The sum over the pipeline ranks that have the same parameters: each sends its gradients to the
// others, and all add them up in the same order.
ValueId tied_gradient(Graph& g, PlanDraft& plan, const ParameterGroup& group, ValueId own) {
  if (group.tied.empty()) return own;
  const auto message = [&](uint32_t kind, int32_t peer) {
    const int32_t id =
        add_collective(plan, "gradients of tied " + group.name, topology::Axis::kPipeline, kind);
    plan.collectives[static_cast<size_t>(id)].peer = static_cast<uint32_t>(peer);
    return id;
  };
  struct Started {
    int32_t collective;
    ValueId v;
  };
  std::vector<Started> sent, received;
  for (const int32_t r : group.tied) {
    if (r == plan.at.pipeline) {
      received.push_back({-1, own});
      continue;
    }
    const int32_t to = message(PLAIT_COMM_SEND, r), from = message(PLAIT_COMM_RECEIVE, r);
    sent.push_back({to, start_send(g, plan, to, own)});
    received.push_back({from, start_receive(g, plan, from, g.shape(own))});
  }
  ValueId sum = 0;
  for (const Started& s : received) {
    const ValueId v = s.collective < 0 ? s.v : wait_collective(g, s.collective, s.v);
    sum = sum ? binary(g, "add", sum, v) : v;
  }
  for (const Started& s : sent) wait_collective(g, s.collective, s.v);
  return sum;
}

// A collective under way, and what lies in the memory of its result: a bucket of parameters.
struct Gathered {
  int32_t collective = -1;
  ValueId all = 0;
  const ParameterGroup* group = nullptr;
  const Bucket* bucket = nullptr;
};

// What a group's parameters lie in: all of them, or a half of each.
struct StoredPart {
  std::string name;
  const FlatBuffer& buffer;
  int64_t entries = 1;  // for each element
  ValueId own = 0;      // this rank's shard of the bucket
};

// Replicas that share the update hand each other what they made of their own elements: `updated`,
// values in their shards.
Gathered gather_bucket(Graph& g, PlanDraft& plan, const ParameterGroup& group, const Bucket& bucket,
                       const StoredPart& part, const std::vector<ValueId>& updated) {
  const bool one_owner = bucket.owner >= 0;
  const int32_t collective =
      add_collective(plan, part.name + " of " + group.name, topology::Axis::kData,
                     one_owner ? PLAIT_COMM_BROADCAST : PLAIT_COMM_ALL_GATHER);
  const int64_t begin = part.entries * bucket.begin;
  const ValueId all =
      flat(g, group.name + "." + part.name, part.buffer, begin, part.entries * bucket.elements);
  std::vector<ValueId> in{one_owner ? all : part.own};
  in.insert(in.end(), updated.begin(), updated.end());
  if (one_owner) {
    plan.collectives[static_cast<size_t>(collective)].peer = static_cast<uint32_t>(bucket.owner);
    return {collective, start_broadcast(g, plan, collective, std::move(in)), &group, &bucket};
  }
  start_all_gather(g, plan, collective, std::move(in), part.buffer.at(begin));
  return {collective, all, &group, &bucket};
}

// A bucket, and what its update makes of it.
struct UpdatedBucket {
  ParameterGroup& group;
  const Bucket& bucket;
  std::vector<const Parameter*> members;
  ValueId parameter = 0;  // own elements, unless they lie in halves
  SplitValue halves = {};
  Updated updated = {};
};

void update_bucket(Graph& g, PlanDraft& plan, UpdatedBucket& one, ValueId gradient,
                   const StepScale& common, MethodUpdates& methods) {
  ParameterGroup& group = one.group;
  const Bucket& bucket = one.bucket;
  g.scope = group.name;
  BucketValues values{0, gradient};
  if (group.is_split()) {
    one.halves = split_elements(g, group, bucket.shard_begin, bucket.shard_elements);
    values.split = &one.halves;
  } else {
    one.parameter = values.parameter = g.persistent(
        group.name + ".parameters", make_shape(group.parameters.dtype, {bucket.shard_elements}),
        parameter_shard(plan, group, bucket));
    if (plan.zero == 0 && group.scope == PLAIT_SCOPE_ELEMENT)
      values.low = low_copy(g, group, bucket.begin, g.shape(values.parameter));
  }
  if (group.scope == PLAIT_SCOPE_TENSOR)
    one.updated = write_tensors(g, plan, group, bucket, one.members, values, common, methods);
  else if (group.rounds || group.is_split() || group.low_states)
    one.updated = write_pieces(g, plan, group, bucket, one.members, values, common);
  else
    one.updated.values = {write_bucket(g, plan, group, bucket, values, common)};
}

// What others read of an updated bucket: low copies, and with ZeRO 1 and 2 what other replicas own.
void publish_bucket(Graph& g, PlanDraft& plan, const UpdatedBucket& one,
                    std::vector<Gathered>& gathered) {
  ParameterGroup& group = one.group;
  const Updated& updated = one.updated;
  g.scope = group.name;
  if (plan.zero == 0 && group.scope == PLAIT_SCOPE_TENSOR)
    for (size_t j = 0; j < updated.values.size(); ++j)
      update_low_copy(g, group, one.members[j]->flat_offset, updated.values[j]);
  if (plan.zero == 0 || plan.zero == 3) return;
  if (!group.is_split()) {
    const StoredPart whole{"parameters", group.parameters, 1, one.parameter};
    gathered.push_back(gather_bucket(g, plan, group, one.bucket, whole, updated.values));
    return;
  }
  const StoredPart high{"low", group.low, 1, one.halves.high},
      rest{"rest", group.rest, rest_entries(1), one.halves.rest};
  gathered.push_back(gather_bucket(g, plan, group, one.bucket, high, updated.values));
  gathered.push_back(gather_bucket(g, plan, group, one.bucket, rest, updated.rests));
}

void write_model(Graph& g, PlanDraft& plan, size_t m, const std::vector<ValueId>& gradients,
                 const std::vector<StepScale>& of_norms) {
  std::vector<Gathered> gathered;
  MethodUpdates methods(g, plan, plan.models[m].name);
  std::vector<UpdatedBucket> open;
  size_t k = 0;
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    ParameterGroup& group = plan.groups[i];
    if (group.model != static_cast<int32_t>(m)) continue;
    auto members = bucket_members(plan, i);
    for (size_t b = 0; b < group.buckets.size(); ++b) {
      UpdatedBucket one{group, group.buckets[b], std::move(members[b])};
      update_bucket(g, plan, one, gradients[k++], of_norms[group.norm], methods);
      // On all replicas alike, whoever owns what methods still change.
      if (std::none_of(one.members.begin(), one.members.end(),
                       [&](const Parameter* p) { return has_method_rules(plan, *p); }))
        publish_bucket(g, plan, one, gathered);
      else
        open.push_back(std::move(one));
    }
  }
  methods.gather();
  for (UpdatedBucket& one : open) {
    for (const auto& [at, p] : one.updated.open) {
      const MethodUpdates::Written written = methods.write(*p);
      one.updated.values[at] = written.value;
      if (one.group.is_split()) one.updated.rests[at] = written.rest;
    }
    publish_bucket(g, plan, one, gathered);
  }
  for (const Gathered& one : gathered) {
    const ValueId all = wait_collective(g, one.collective, one.all);
    g.scope = one.group->name;
    update_low_copy(g, *one.group, one.bucket->begin, all);
  }
}

// The gradients of a model's groups, in the order of groups and buckets; own: those that this rank
// counts.
std::vector<ValueId> gradients_of(Graph& g, PlanDraft& plan, size_t m, ModelGradients& own) {
  std::vector<ValueId> all;
  own.norms.resize(plan.models[m].norms.size());
  for (const ParameterGroup& group : plan.groups) {
    if (group.model != static_cast<int32_t>(m)) continue;
    g.scope = group.name;
    ModelGradients::OfNorm& norm = own.norms[group.norm];
    const bool counts = group.tied.empty() || group.tied[0] == plan.at.pipeline;
    own.any_sharded |= counts && group.sharded && !group.buckets.empty();
    for (const Bucket& bucket : group.buckets) {
      const ValueId gradient = own_gradient(g, plan, group, bucket);
      all.push_back(gradient ? tied_gradient(g, plan, group, gradient) : 0);
      if (counts && gradient)
        (group.sharded ? norm.sharded : norm.replicated).push_back(all.back());
    }
  }
  return all;
}

// What the ranks counted becomes what all of them did.
void finish_step_sums(Graph& g, PlanDraft& plan) {
  g.scope = "replicas";
  const auto of = [&](const char* name, int64_t first, int64_t n) {
    return flat(g, name, plan.results, first, n);
  };
  const int64_t n = plan.n_step_sums();
  if (plan.step_sums_collective >= 0)
    wait_collective(g, plan.step_sums_collective, of("sums", 0, plan.n_counts()));
  // Tensor ranks count the same samples, but any of them may want to stop or to save.
  sum_over(g, plan, topology::Axis::kTensor, "requests", of("requests", 1, plan.n_counts() - 1));
  if (plan.grid.pipeline() == 1) return;
  sum_over(g, plan, topology::Axis::kData, "losses and weights", of("sums", 0, n));
  // So do pipeline ranks, but losses are in one stage.
  sum_over(g, plan, topology::Axis::kPipeline, "losses and weights, by stage",
           of("sums of stages", 1, n - 1));
}

// Replicas that own different parameters have different ops between the scores and what they
// gather: the collectives start in the order in which they are written.
void order_collectives(Graph& g) {
  for (size_t i = 0; i < g.ops().size(); ++i)
    if (g.ops()[i].def->collective == program::CollectiveOp::kStart)
      g.set_attr(i, attr("ordered", true));
}

}  // namespace

void declare_states(PlanDraft& plan) {
  for (Parameter& p : plan.parameters)
    if (p.group >= 0 && p.scope == PLAIT_SCOPE_TENSOR)
      declare_tensor_states(plan, plan.groups[static_cast<size_t>(p.group)], p);
  declare_method_states(plan);
  for (ParameterGroup& group : plan.groups) {
    if (group.scope == PLAIT_SCOPE_TENSOR) continue;
    // The update of one element: a rank that holds nothing of a group must know its states, too.
    Graph g(plan.ops.get(), plan.precision.scalar);
    g.scope = group.name;
    Bucket bucket;
    bucket.shard_elements = bucket.elements = 1;
    const ValueId parameter =
                      g.persistent(group.name, make_shape(plan.precision.parameter, {1}), {}),
                  gradient = g.persistent("gradient", make_shape(group.gradients.dtype, {1}), {});
    const ValueId step = g.persistent("step", make_shape(plan.precision.scalar, {}), {});
    write_bucket(g, plan, group, bucket, {parameter, gradient},
                 {g.constant(1), g.constant(1), step, 0});
    check_padding_stays_zero(plan, group, {g, parameter, gradient, step});
  }
}

std::unique_ptr<Graph> write_update(PlanDraft& plan, const std::vector<PendingSend>& pending) {
  auto graph = new_graph(plan);
  Graph& g = *graph;
  wait_pending_sends(g, pending);
  finish_step_sums(g, plan);
  // A step counts for all models or for none: what they share, the step number, then means the same
  // to each.
  std::vector<std::vector<StepScale>> common(plan.models.size());
  std::vector<std::vector<ValueId>> gradients(plan.models.size());
  ValueId finite = 0;
  for (size_t m = 0; m < plan.models.size(); ++m) {
    if (!plan.models[m].trained) continue;
    ModelGradients own;
    gradients[m] = gradients_of(g, plan, m, own);
    common[m] = write_norms(g, plan, m, own);
    finite = finite ? binary(g, "and", finite, common[m][0].finite) : common[m][0].finite;
  }
  // Where the step is not finite the count stays, and what optimizers make of it is thrown away; so
  // are the adapters' counts where it has no sample of them.
  g.scope = "step";
  const uint32_t type = plan.step.dtype;
  const auto counted = [&](int64_t at, ValueId counts) {
    const ValueId made = g.persistent("step", make_shape(type, {}), plan.step.at(at));
    return counts ? g.assign(made, binary(g, "add", made, g.as_type(counts, type))) : made;
  };
  const ValueId made = counted(0, finite), step = g.as_type(made, plan.precision.scalar);
  for (size_t m = 0; m < plan.models.size(); ++m) {
    if (!plan.models[m].trained) continue;
    g.bind(finite, plan.models[m].finite);
    for (size_t i = 0; i < common[m].size(); ++i) {
      StepScale& own = common[m][i];
      own.finite = finite;
      own.step = step;
      own.count = made;
      if (!own.active) continue;
      g.scope = "step";
      own.finite = binary(g, "and", finite, own.active);
      own.count = counted(plan.models[m].norms[i].step, own.finite);
      own.step = g.as_type(own.count, plan.precision.scalar);
    }
    write_model(g, plan, m, gradients[m], common[m]);
  }
  if (finite) update_loss_scale(g, plan, finite);
  if (plan.zero > 0 && std::any_of(plan.parameters.begin(), plan.parameters.end(),
                                   [&](const Parameter& p) { return has_method_rules(plan, p); }))
    order_collectives(g);
  return graph;
}

std::unique_ptr<Graph> write_zero_grad(const Plan& plan) {
  auto graph = new_graph(plan);
  auto zero = [&](const std::string& name, const plait_shape& shape, BufferRef buffer) {
    const ValueId target = graph->persistent(name, shape, buffer);
    graph->assign(target, program::filled(*graph, shape, 0));
  };
  graph->scope = "zero_grad";
  for (const ParameterGroup& group : plan.groups) {
    if (group.buckets.empty()) continue;
    zero(group.name + ".gradients", make_shape(group.gradients.dtype, {group.gradients.elements}),
         group.gradients.at(0));
  }
  for (const Model& model : plan.models) {
    if (!model.trained) continue;
    zero("loss_sum", scalar_of(plan), model.loss_sum);
    if (model.n_weights == 0) zero("weight_sum", scalar_of(plan), model.weight_sum);
    if (model.n_means > 0)
      zero("mean_sums", make_shape(plan.results.dtype, {2 * model.n_means}), model.mean_sums);
  }
  if (plan.loss_weights.exists())
    zero("weights of losses", make_shape(plan.loss_weights.dtype, {n_loss_weights(plan)}),
         plan.loss_weights.at(0));
  for (const Metric& m : plan.train_metrics)
    zero(m.name, make_shape(plan.results.dtype, {m.n_state()}), m.state);
  return graph;
}

}  // namespace plait::plan

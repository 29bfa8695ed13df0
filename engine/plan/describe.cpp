#include "engine/plan/describe.hpp"
#include "engine/plan/checkpoint_blocks.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/plan/describe_pipeline.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/totals.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/tf32.hpp"

namespace plait::plan {
namespace {

void shape(JsonWriter& w, const plait_shape& s) {
  w.field("dtype", program::dtype_name(s.dtype));
  w.key("shape").array();
  for (uint32_t i = 0; i < s.ndim; ++i) w.value(s.dims[i]);
  w.end_array();
}

// The rank at the other end of a message, or the root of a broadcast; -1 for other kinds.
int32_t peer(const Plan& plan, const Collective& e) {
  if (!is_message(e) && e.kind != PLAIT_COMM_BROADCAST) return -1;
  return plan.grid.group(e.axis, plan.grid.group_index(e.axis, plan.at)).members[e.peer];
}

// bytes: the contribution or the result of one rank.
void collective(JsonWriter& w, const Plan& plan, const KernelCall& c) {
  const Collective& e = plan.collectives[static_cast<size_t>(c.collective)];
  w.key("collective").object().field("index", c.collective).field("name", e.name);
  w.field("kind", kind_name(e.kind)).field("axis", topology::axis_name(e.axis));
  w.field("ranks", ranks_of(plan, e.axis)).field("bytes", e.n * program::dtype_bytes(e.dtype));
  if (const int32_t rank = peer(plan, e); rank >= 0) w.field("peer", rank);
  w.end_object();
}

void program(JsonWriter& w, const Plan& plan, const Program& p) {
  w.object()
      .field("name", p.name)
      .field("flops", p.flops)
      .field("transient_bytes", p.transient_bytes);
  w.key("kernels").array();
  for (const KernelCall& c : p.calls) {
    const program::Op& op = p.graph->ops()[static_cast<size_t>(c.op)];
    w.object().field("op", op.name).field("scope", op.scope);
    if (c.collective >= 0)
      collective(w, plan, c);
    else
      w.field("kernel", c.kernel->name);
    if (program::uses_tf32(op)) w.field("tf32", true);
    w.field("detail", c.detail).field("refused", c.refused).field("flops", c.flops);
    w.field("workspace_bytes", c.workspace_bytes);
    w.key("inputs").array();
    for (auto v : op.in) w.value(program::text(p.graph->shape(v)));
    w.end_array().key("outputs").array();
    for (auto v : op.out) w.value(program::text(p.graph->shape(v)));
    w.end_array().end_object();
  }
  w.end_array().end_object();
}

// The launches in order. micro_batch: of the step; absent for launches outside of micro-batches.
void launches(JsonWriter& w, const Plan& plan, const char* name, const std::vector<Launch>& all) {
  w.key(name).array();
  for (const Launch& t : all) {
    if (t.program < 0 || plan.programs[static_cast<size_t>(t.program)].empty()) continue;
    w.object().field("program", plan.programs[static_cast<size_t>(t.program)].name);
    w.field("slot", t.slot);
    if (t.micro >= 0 && t.micro < plan.accumulation) w.field("micro_batch", t.micro);
    w.end_object();
  }
  w.end_array();
}

// Whether a field has that role in the dataset that the programs were planned for.
bool is_input(const Plan& plan, const Field& f) {
  const Dataset* d = plan.dataset("eval") ? plan.dataset("eval") : plan.dataset("train");
  if (!d) return true;
  const auto at = std::find_if(d->fields().begin(), d->fields().end(),
                               [&](const plait_field& one) { return f.name == one.name; });
  return at == d->fields().end() || at->role == PLAIT_FIELD_INPUT;
}

// What a host can predict, as it is for one sample; left out: no memory is kept for it.
void outputs(JsonWriter& w, const Plan& plan) {
  const EntryPoint* predict = plan.find_entry_point(kPredict);
  w.key("outputs").array();
  const auto write = [&](const Output& o, bool kept) {
    const int64_t samples = predict ? predict->feed.batch : 0;
    if (samples == 0) return;
    plait_shape one = o.shape;  // rows of a sample follow each other
    one.dims[0] /= samples;
    if (one.dims[0] == 1) {
      std::copy(one.dims + 1, one.dims + one.ndim, one.dims);
      --one.ndim;
    }
    w.object().field("name", o.name).field("kept", kept);
    shape(w, one);
    w.field("bytes", program::bytes(one)).end_object();
  };
  for (const Output& o : plan.outputs) write(o, true);
  for (const Output& o : plan.outputs_left_out) write(o, false);
  w.end_array();
}

void entry_point(JsonWriter& w, const Plan& plan, const EntryPoint& e) {
  const Totals totals = totals_of(plan, e);
  w.object().field("name", e.name).field("samples", e.feed.batch);
  w.key("fields").array();
  for (const Field& f : e.feed.fields) w.value(f.name);
  w.end_array().key("programs").array();
  for (const int32_t p : e.programs()) w.value(plan.programs[static_cast<size_t>(p)].name);
  w.end_array().field("flops", totals.flops).field("sent_bytes", totals.sent_bytes);
  w.field("transient_bytes", totals.transient_bytes).key("inputs").array();
  for (const Field& f : e.feed.fields)
    if (is_input(plan, f)) w.value(f.name);
  w.end_array().key("field_dtypes").array();  // of fields, in their order
  for (const Field& f : e.feed.fields) w.value(program::dtype_name(f.shape.dtype));
  w.end_array();
  launches(w, plan, "launches", e.launches);
  w.end_object();
}

// Of all ranks together, in forward and backward passes; "full": without the masks of attention.
void model_flops(JsonWriter& w, const Plan& plan) {
  const auto both = [&](const char* per, const char* per_full, double samples) {
    w.field(per, plan.flops_per_sample.masked * samples);
    w.field(per_full, plan.flops_per_sample.full * samples);
  };
  w.key("model_flops").object();
  both("per_step", "per_step_full", static_cast<double>(plan.experiment.batch.global));
  both("per_sample", "per_sample_full", 1);
  if (plan.tokens_per_sample > 0)
    both("per_token", "per_token_full", 1 / static_cast<double>(plan.tokens_per_sample));
  w.end_object().field("tokens_per_sample", plan.tokens_per_sample);
}

struct Count {
  int64_t total = 0, trained = 0;
};

// Of each layer, by its name, with which the names of its parameters begin. Parameters that layers
// share count for the first of them.
std::map<std::string_view, Count> parameters_of_layers(const Plan& plan) {
  std::map<std::string_view, Count> counts;
  for (const Layer& layer : plan.layers) counts[layer.name];
  for (const Parameter& p : plan.parameters) {
    std::string_view name = p.name;
    auto at = counts.end();
    for (size_t dot; at == counts.end() && (dot = name.rfind('.')) != name.npos;)
      at = counts.find(name = name.substr(0, dot));
    if (at == counts.end()) continue;
    at->second.total += program::elements(p.shape);
    at->second.trained += p.group < 0 ? 0 : program::elements(p.shape);
  }
  return counts;
}

void layers(JsonWriter& w, const Plan& plan) {
  const std::map<std::string_view, Count> counts = parameters_of_layers(plan);
  w.key("layers").array();
  for (const Layer& layer : plan.layers) {
    const Count& count = counts.at(layer.name);
    w.object().field("name", layer.name).field("type", layer.type).key("output").object();
    shape(w, layer.output);
    w.end_object().field("parameter_count", count.total).field("trained_count", count.trained);
    w.field("flops", layer.flops).end_object();
  }
  w.end_array();
}

// Of each adapter of each model: its parameters, as all ranks together hold them once.
void adapters(JsonWriter& w, const Plan& plan) {
  w.key("adapters").array();
  for (const config::ModelConfig& model : plan.experiment.models)
    for (const std::string& name : config::adapter_names(model)) {
      Count count, bytes;
      for (const Parameter& p : plan.parameters) {
        if (p.model != model.name || p.adapter != name) continue;
        const auto n = program::elements(p.shape);
        const auto size = static_cast<int64_t>(program::bytes(p.shape));
        count.total += n;
        bytes.total += size;
        count.trained += p.group < 0 ? 0 : n;
        bytes.trained += p.group < 0 ? 0 : size;
      }
      w.object().field("model", model.name).field("name", name);
      w.field("parameter_count", count.total).field("trained_count", count.trained);
      w.field("bytes", bytes.total).field("trained_bytes", bytes.trained).end_object();
    }
  w.end_array();
}

void shared_memory(JsonWriter& w, const std::vector<SharedMemoryUse>& shared) {
  w.key("shared_memory").array();
  for (const SharedMemoryUse& s : shared) {
    w.object().field("backend", s.backend).field("ranks", s.ranks).field("groups", s.groups);
    w.field("bytes", s.bytes);
    if (s.available != UINT64_MAX) w.field("available", s.available);
    w.end_object();
  }
  w.end_array();
}

std::vector<Metric> better_high(const Plan& plan) {
  std::vector<Metric> found;
  for (const std::vector<Metric>* all : {&plan.metrics, &plan.train_metrics})
    for (const Metric& m : *all)
      if (m.item && m.item->higher_is_better &&
          std::none_of(found.begin(), found.end(),
                       [&](const Metric& other) { return other.name == m.name; }))
        found.push_back(m);
  return found;
}

// As the files of a run have them; the loss has no entry.
void names(JsonWriter& w, const char* key, const std::vector<Metric>& metrics) {
  w.key(key).array();
  for (const Metric& m : metrics) w.value(m.name);
  w.end_array();
}

}  // namespace

namespace {

// Whether the device has memory beside the host's, as one whose copies need memory of its own.
bool has_own_memory(const Plan& plan) {
  const plait_device_item& d = plan.registry->device(plan.device);
  constexpr size_t kSize = offsetof(plait_device_item, host_alloc) + sizeof d.host_alloc;
  return d.struct_size >= kSize && d.host_alloc;
}

}  // namespace

std::string describe(const Plan& plan, const std::vector<SharedMemoryUse>& shared) {
  JsonWriter w;
  int64_t total = 0, trained = 0;
  w.object().field("schema", 1).field("name", plan.experiment.run.name);
  w.field("device", plan.device).field("device_has_own_memory", has_own_memory(plan));
  w.field("threads", plan.threads).field("steps", plan.total_steps);
  w.field("global_batch", plan.experiment.batch.global)
      .field("micro_batch", plan.experiment.batch.micro);
  w.field("accumulation", plan.accumulation);
  w.key("topology").object().field("ranks", plan.grid.ranks()).field("rank", plan.rank);
  w.field("pipeline", plan.grid.pipeline()).field("data", plan.grid.data());
  w.field("tensor", plan.grid.tensor()).field("zero", plan.experiment.topology.zero);
  w.field("sequence", plan.experiment.topology.sequence).end_object();
  describe_pipeline(w, plan);
  layers(w, plan);
  w.key("parameters").array();
  for (const Parameter& p : plan.parameters) {
    w.object().field("name", p.name);
    shape(w, p.shape);
    w.field("group", p.group < 0 ? std::string("frozen")
                                 : title_of(plan, plan.groups[static_cast<size_t>(p.group)]));
    if (p.group >= 0) w.field("update", p.scope == PLAIT_SCOPE_TENSOR ? "tensor" : "element");
    w.end_object();
    total += program::elements(p.shape);
    trained += p.group < 0 ? 0 : program::elements(p.shape);
  }
  w.end_array().field("parameter_count", total).field("trained_count", trained);
  adapters(w, plan);
  w.field("checkpoint_bytes", checkpoint_bytes(plan));
  write_memory(w, memory_of(plan));
  shared_memory(w, shared);
  const EntryPoint& train_step = plan.entry_point(kTrainStep);
  const Totals step = totals_of(plan, train_step);
  w.field("flops_per_step", step.flops).field("sent_bytes_per_step", step.sent_bytes);
  model_flops(w, plan);
  w.key("programs").array();
  for (const Program& p : plan.programs)
    if (!p.empty()) program(w, plan, p);
  w.end_array().key("launches").object();
  launches(w, plan, "step", train_step.launches);
  launches(w, plan, "evaluation", plan.entry_point(kEvaluate).launches);
  w.end_object().key("entry_points").array();
  for (const EntryPoint& e : plan.entry_points) entry_point(w, plan, e);
  outputs(w.end_array(), plan);
  w.key("metrics").object();
  names(w, "train", plan.train_metrics);
  names(w, "evaluation", plan.metrics);
  names(w, "higher_is_better", better_high(plan));
  w.end_object().end_object();
  return w.text();
}

}  // namespace plait::plan

#include "engine/plan/describe.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/data/data_loader.hpp"
#include "engine/plan/checkpoint_blocks.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/plan/describe_pipeline.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {
namespace {

void shape(JsonWriter& w, const plait_shape& s) {
  w.field("dtype", program::dtype_name(s.dtype));
  w.key("shape").array();
  for (uint32_t i = 0; i < s.ndim; ++i) w.value(s.dims[i]);
  w.end_array();
}

uint64_t dataset_bytes(const Plan& plan) {
  uint64_t bytes = 0;
  for (const auto& d : plan.datasets) bytes += d->info().host_bytes;
  return bytes;
}

uint64_t prefetch_bytes(const Plan& plan) {
  uint64_t bytes = 0;
  for (const auto& c : plan.experiment.datasets) {
    const Dataset* d = plan.dataset(c.name);
    bytes += data::DataLoader::host_bytes(loader_config(plan, c.name, c.name == "train"),
                                          d->info().fields, d->info().n_fields);
  }
  return bytes;
}

void memory(JsonWriter& w, const Plan& plan) {
  uint64_t arena = plan.transient_bytes;
  for (const Segment& s : plan.storage.segments()) arena += s.all_bytes();
  w.key("memory").object();
  for (int c = 0; c < kCategories; ++c)
    w.field(category_name(static_cast<Category>(c)),
            plan.storage.bytes_of(static_cast<Category>(c)));
  w.field("transient", plan.transient_bytes);
  w.field("arena", arena);
  w.field("dataset", dataset_bytes(plan));
  w.field("prefetch", prefetch_bytes(plan));
  w.field("checkpoint_copy", checkpoint_copy_bytes(plan));
  w.field("total",
          arena + dataset_bytes(plan) + prefetch_bytes(plan) + checkpoint_copy_bytes(plan));
  w.end_object();
}

// The rank at the other end of a message, or the root of a broadcast; -1 for other kinds.
int32_t peer(const Plan& plan, const Collective& e) {
  if (e.kind != PLAIT_COMM_SEND && e.kind != PLAIT_COMM_RECEIVE && e.kind != PLAIT_COMM_BROADCAST)
    return -1;
  for (const topology::ProcessGroup& g : plan.grid.groups_of(plan.rank))
    if (g.axis == e.axis) return g.members[e.peer];
  return -1;
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

// The least number of bytes that this rank sends in one run of a program with any backend.
double sent_bytes(const Plan& plan, const Program& p) {
  double bytes = 0;
  for (const KernelCall& c : p.calls) {
    const program::Op& op = p.graph->ops()[static_cast<size_t>(c.op)];
    if (op.def->collective != program::CollectiveOp::kStart) continue;
    const Collective& e = plan.collectives[static_cast<size_t>(c.collective)];
    const double n = static_cast<double>(e.n * program::dtype_bytes(e.dtype));
    const double others = ranks_of(plan, e.axis) - 1;
    switch (e.kind) {
      case PLAIT_COMM_ALL_REDUCE:
        bytes += 2 * others / (others + 1) * n;
        break;
      case PLAIT_COMM_REDUCE_SCATTER:
      case PLAIT_COMM_ALL_GATHER:
      case PLAIT_COMM_ALL_TO_ALL:
        bytes += others * n;
        break;
      case PLAIT_COMM_SEND:
        bytes += n;
        break;
      default:
        break;
    }
  }
  return bytes;
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

}  // namespace

std::string describe(const Plan& plan) {
  JsonWriter w;
  int64_t total = 0, trained = 0;
  w.object().field("schema", 1).field("name", plan.experiment.run.name);
  w.field("device", plan.device).field("threads", plan.threads).field("steps", plan.total_steps);
  w.field("global_batch", plan.experiment.batch.global)
      .field("micro_batch", plan.experiment.batch.micro);
  w.field("accumulation", plan.accumulation);
  w.key("topology").object().field("ranks", plan.grid.ranks()).field("rank", plan.rank);
  w.field("pipeline", plan.grid.pipeline()).field("data", plan.grid.data());
  w.field("tensor", plan.grid.tensor()).field("zero", plan.experiment.topology.zero);
  w.field("sequence", plan.experiment.topology.sequence).end_object();
  describe_pipeline(w, plan);
  w.key("parameters").array();
  for (const Parameter& p : plan.parameters) {
    w.object().field("name", p.name);
    shape(w, p.shape);
    w.field("group",
            p.group < 0 ? std::string("frozen") : plan.groups[static_cast<size_t>(p.group)].name);
    if (p.group >= 0) w.field("update", p.scope == PLAIT_SCOPE_TENSOR ? "tensor" : "element");
    w.end_object();
    total += program::elements(p.shape);
    trained += p.group < 0 ? 0 : program::elements(p.shape);
  }
  w.end_array().field("parameter_count", total).field("trained_count", trained);
  memory(w, plan);
  double flops = 0, sent = 0;
  for (const Launch& t : plan.step_launches) {
    if (t.program < 0) continue;
    const Program& p = plan.programs[static_cast<size_t>(t.program)];
    flops += p.flops;
    sent += sent_bytes(plan, p);
  }
  w.field("flops_per_step", flops).field("sent_bytes_per_step", sent);
  w.key("programs").array();
  for (const Program& p : plan.programs)
    if (!p.empty()) program(w, plan, p);
  w.end_array().key("launches").object();
  launches(w, plan, "step", plan.step_launches);
  launches(w, plan, "evaluation", plan.evaluation_launches);
  w.end_object().end_object();
  return w.text();
}

}  // namespace plait::plan

#include "engine/plan/totals.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>

#include "engine/data/data_loader.hpp"
#include "engine/plan/checkpoint_blocks.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {

MemoryUse memory_of(const Plan& plan) {
  MemoryUse memory;
  for (int c = 0; c < kCategories; ++c)
    memory.of_category[static_cast<size_t>(c)] = plan.storage.bytes_of(static_cast<Category>(c));
  memory.transient = memory.arena = plan.transient_bytes;
  for (const Segment& s : plan.storage.segments()) memory.arena += s.all_bytes();
  for (const auto& d : plan.datasets) memory.dataset += d->info().host_bytes;
  for (const auto& c : plan.experiment.datasets) {
    const Dataset* d = plan.dataset(c.name);
    if (!d->has_samples()) continue;
    memory.prefetch += data::DataLoader::host_bytes(loader_config(plan, c.name, c.name == "train"),
                                                    d->info().fields, d->info().n_fields);
  }
  memory.checkpoint_copy = checkpoint_copy_bytes(plan);
  return memory;
}

void write_memory(JsonWriter& w, const MemoryUse& memory) {
  w.key("memory").object();
  for (int c = 0; c < kCategories; ++c)
    w.field(category_name(static_cast<Category>(c)), memory.of_category[static_cast<size_t>(c)]);
  w.field("transient", memory.transient).field("arena", memory.arena);
  w.field("dataset", memory.dataset).field("prefetch", memory.prefetch);
  w.field("checkpoint_copy", memory.checkpoint_copy).field("total", memory.total()).end_object();
}

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

Totals totals_of(const Plan& plan, const EntryPoint& entry) {
  Totals totals;
  // A program may have many launches.
  std::map<int32_t, double> sent;
  for (const Launch& t : entry.launches) {
    if (t.program < 0) continue;
    const Program& p = plan.programs[static_cast<size_t>(t.program)];
    const auto [at, first] = sent.try_emplace(t.program, 0);
    if (first) at->second = sent_bytes(plan, p);
    totals.flops += p.flops;
    totals.sent_bytes += at->second;
    totals.transient_bytes = std::max(totals.transient_bytes, p.transient_bytes);
  }
  return totals;
}

}  // namespace plait::plan

#include "engine/plan/collectives.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/program/op_def.hpp"

namespace plait::plan {

using program::attr;
using program::Graph;
using program::ValueId;

int32_t add_collective(PlanDraft& plan, std::string name, topology::Axis axis, uint32_t kind) {
  Collective e;
  e.name = std::move(name);
  e.axis = axis;
  e.kind = kind;
  if (kind == PLAIT_COMM_ALL_REDUCE || kind == PLAIT_COMM_REDUCE_SCATTER)
    e.reduction = PLAIT_COMM_SUM;
  return plan.add(std::move(e));
}

int64_t ranks_of(const Plan& plan, topology::Axis axis) { return plan.grid.group_size(axis); }

namespace {

program::Attrs attributes(const Plan& plan, int32_t collective) {
  const Collective& e = plan.collectives[static_cast<size_t>(collective)];
  return {attr("kind", static_cast<int64_t>(e.kind)), attr("ranks", ranks_of(plan, e.axis)),
          attr("id", static_cast<int64_t>(collective)),
          attr("ordered", e.axis != topology::Axis::kTensor && e.axis != topology::Axis::kData)};
}

// n is what one rank brings or takes: the smaller of both ends.
void set_operands(Graph& g, PlanDraft& plan, int32_t collective, ValueId in, ValueId out) {
  Collective& e = plan.collectives[static_cast<size_t>(collective)];
  e.dtype = g.shape(in).dtype;
  e.n = static_cast<uint64_t>(
      std::min(program::elements(g.shape(in)), program::elements(g.shape(out))));
}

ValueId start(Graph& g, PlanDraft& plan, int32_t collective, std::vector<ValueId> in) {
  const ValueId first = in[0];
  const ValueId out = g.apply1("collective_start", std::move(in), attributes(plan, collective));
  set_operands(g, plan, collective, first, out);
  return out;
}

ValueId start_in_place(Graph& g, PlanDraft& plan, int32_t collective, std::vector<ValueId> in) {
  const ValueId first = in[0];
  const ValueId out =
      g.apply_in_place("collective_start", std::move(in), attributes(plan, collective));
  set_operands(g, plan, collective, first, out);
  return out;
}

}  // namespace

ValueId start_all_reduce(Graph& g, PlanDraft& plan, int32_t collective, std::vector<ValueId> in) {
  return start_in_place(g, plan, collective, std::move(in));
}

ValueId start_reduce_scatter(Graph& g, PlanDraft& plan, int32_t collective, std::vector<ValueId> in,
                             BufferRef buffer) {
  return g.bind(start(g, plan, collective, std::move(in)), buffer);
}

ValueId start_reduce_scatter(Graph& g, PlanDraft& plan, int32_t collective,
                             std::vector<ValueId> in) {
  return start(g, plan, collective, std::move(in));
}

ValueId start_all_gather(Graph& g, PlanDraft& plan, int32_t collective, std::vector<ValueId> in,
                         BufferRef buffer) {
  return g.bind(start(g, plan, collective, std::move(in)), buffer);
}

ValueId start_all_gather(Graph& g, PlanDraft& plan, int32_t collective, std::vector<ValueId> in,
                         ValueId buffer) {
  return g.bind_into(start(g, plan, collective, std::move(in)), buffer, 0);
}

ValueId start_send(Graph& g, PlanDraft& plan, int32_t collective, ValueId v) {
  return start_in_place(g, plan, collective, {v});
}

ValueId start_broadcast(Graph& g, PlanDraft& plan, int32_t collective, std::vector<ValueId> in) {
  return start_in_place(g, plan, collective, std::move(in));
}

ValueId start_receive(Graph& g, PlanDraft& plan, int32_t collective, const plait_shape& shape) {
  program::Attrs attrs = attributes(plan, collective);
  attrs.set(attr("dtype", static_cast<int64_t>(shape.dtype)));
  attrs.set(attr("shape", program::dims_of(shape)));
  const ValueId v = g.apply1("collective_start", {}, std::move(attrs));
  set_operands(g, plan, collective, v, v);
  return v;
}

void wait_for_slot(Graph& g, int32_t collective, ValueId v, int32_t slot) {
  g.apply_in_place(
      "collective_done", {v},
      {attr("id", static_cast<int64_t>(collective)), attr("slot", static_cast<int64_t>(slot))});
}

ValueId wait_collective(Graph& g, int32_t collective, ValueId v, ValueId sent) {
  std::vector<ValueId> in{v};
  if (sent) in.push_back(sent);
  return g.apply_in_place("collective_done", std::move(in),
                          {attr("id", static_cast<int64_t>(collective))});
}

}  // namespace plait::plan

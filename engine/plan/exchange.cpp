#include "engine/plan/exchange.hpp"

#include <plait/comm.h>

#include "engine/base/text.hpp"
#include "engine/program/rule.hpp"

namespace plait::plan {

using program::attr;
using program::Graph;
using program::ValueId;

std::string text(const Exchange& e) {
  return strf("%s %d %u %u %u %lu;", e.name.c_str(), static_cast<int>(e.axis), e.kind, e.reduction,
              e.dtype, static_cast<unsigned long>(e.n));
}

int32_t add_exchange(Plan& plan, std::string name, topology::Axis axis, uint32_t kind) {
  Exchange e;
  e.name = std::move(name);
  e.axis = axis;
  e.kind = kind;
  if (kind == PLAIT_COMM_ALL_REDUCE || kind == PLAIT_COMM_REDUCE_SCATTER)
    e.reduction = PLAIT_COMM_SUM;
  plan.exchanges.push_back(std::move(e));
  return static_cast<int32_t>(plan.exchanges.size() - 1);
}

int64_t ranks_of(const Plan& plan, topology::Axis axis) {
  for (const topology::Group& g : plan.grid.groups_of(plan.rank))
    if (g.axis == axis) return g.size();
  return 1;
}

namespace {

program::Attrs attributes(const Plan& plan, int32_t exchange) {
  const Exchange& e = plan.exchanges[static_cast<size_t>(exchange)];
  return {attr("kind", static_cast<int64_t>(e.kind)), attr("ranks", ranks_of(plan, e.axis)),
          attr("id", static_cast<int64_t>(exchange)),
          attr("ordered", e.axis != topology::Axis::kTensor && e.axis != topology::Axis::kData)};
}

// n is what one rank brings or takes: the smaller of both ends.
void describe_ends(Graph& g, Plan& plan, int32_t exchange, ValueId in, ValueId out) {
  Exchange& e = plan.exchanges[static_cast<size_t>(exchange)];
  e.dtype = g.shape(in).dtype;
  e.n = static_cast<uint64_t>(
      std::min(program::elements(g.shape(in)), program::elements(g.shape(out))));
}

ValueId start(Graph& g, Plan& plan, int32_t exchange, std::vector<ValueId> in) {
  const ValueId first = in[0];
  const ValueId out = g.apply1("exchange", std::move(in), attributes(plan, exchange));
  describe_ends(g, plan, exchange, first, out);
  return out;
}

ValueId start_in_place(Graph& g, Plan& plan, int32_t exchange, std::vector<ValueId> in) {
  const ValueId first = in[0];
  const ValueId out = g.apply_in_place("exchange", std::move(in), attributes(plan, exchange));
  describe_ends(g, plan, exchange, first, out);
  return out;
}

}  // namespace

ValueId start_all_reduce(Graph& g, Plan& plan, int32_t exchange, std::vector<ValueId> in) {
  return start_in_place(g, plan, exchange, std::move(in));
}

ValueId start_reduce_scatter(Graph& g, Plan& plan, int32_t exchange, std::vector<ValueId> in,
                             Place place) {
  return g.bind(start(g, plan, exchange, std::move(in)), place);
}

ValueId start_reduce_scatter(Graph& g, Plan& plan, int32_t exchange, std::vector<ValueId> in) {
  return start(g, plan, exchange, std::move(in));
}

ValueId start_all_gather(Graph& g, Plan& plan, int32_t exchange, std::vector<ValueId> in,
                         Place place) {
  return g.bind(start(g, plan, exchange, std::move(in)), place);
}

ValueId start_all_gather(Graph& g, Plan& plan, int32_t exchange, std::vector<ValueId> in,
                         ValueId buffer) {
  return g.bind_inside(start(g, plan, exchange, std::move(in)), buffer, 0);
}

ValueId start_send(Graph& g, Plan& plan, int32_t exchange, ValueId v) {
  return start_in_place(g, plan, exchange, {v});
}

ValueId start_broadcast(Graph& g, Plan& plan, int32_t exchange, ValueId v) {
  return start_in_place(g, plan, exchange, {v});
}

ValueId start_receive(Graph& g, Plan& plan, int32_t exchange, const plait_shape& shape) {
  program::Attrs attrs = attributes(plan, exchange);
  attrs.set(attr("dtype", static_cast<int64_t>(shape.dtype)));
  attrs.set(attr("shape", program::dims_of(shape)));
  const ValueId v = g.apply1("exchange", {}, std::move(attrs));
  describe_ends(g, plan, exchange, v, v);
  return v;
}

void wait_for_slot(Graph& g, int32_t exchange, ValueId v, int32_t slot) {
  g.apply_in_place(
      "exchange_wait", {v},
      {attr("id", static_cast<int64_t>(exchange)), attr("slot", static_cast<int64_t>(slot))});
}

ValueId wait_exchange(Graph& g, int32_t exchange, ValueId v, ValueId sent) {
  std::vector<ValueId> in{v};
  if (sent) in.push_back(sent);
  return g.apply_in_place("exchange_wait", std::move(in),
                          {attr("id", static_cast<int64_t>(exchange))});
}

}  // namespace plait::plan

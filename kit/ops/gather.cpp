#include "kit/ops/gather.hpp"

namespace plait::kit {
namespace {

constexpr plait_option kScatterAll[] = {kScatterAddAttrs[0], kScatterAddPart[0],
                                        kScatterAddPart[1]};

void need_output(const plait_op_desc& d, const Gather& g, uint32_t dtype) {
  if (!has_outputs(d)) return;
  need(d.outputs[0].dtype == dtype,
       "y needs type " + std::string(dtype_name(dtype)) + ", found " + text(d.outputs[0]));
  int64_t n = 1;
  for (const int64_t extent : g.out) n *= extent;
  need_count(d.outputs[0], n, "y");
}

}  // namespace

Gather parse_gather(const plait_op_desc& d) {
  need_operands(d, 2, 1);
  const plait_shape &table = d.inputs[0], &index = d.inputs[1];
  need_index(index, "index");
  need(table.ndim >= 1, "needs a table (V, C..), found " + text(table));
  const AttrReader attrs(d, kGatherPart);
  Gather g{table.dims[0], 1, elements(index), index.dtype, attrs.integer("first"), 0, {}};
  g.total = attrs.integer("total");
  if (g.total < 0) g.total = g.rows;
  g.out.assign(index.dims, index.dims + index.ndim);
  for (uint32_t i = 1; i < table.ndim; ++i) {
    g.width *= table.dims[i];
    g.out.push_back(table.dims[i]);
  }
  need_output(d, g, table.dtype);
  return g;
}

Gather parse_scatter_add(const plait_op_desc& d) {
  const AttrReader attrs(d, kScatterAll);
  const bool accumulate = attrs.flag("accumulate");
  need_operands(d, accumulate ? 3 : 2, 1);
  const plait_shape &dy = d.inputs[0], &index = d.inputs[1];
  need_index(index, "index");
  bool fits = dy.ndim >= index.ndim;
  for (uint32_t i = 0; fits && i < index.ndim; ++i) fits = dy.dims[i] == index.dims[i];
  need(fits, text(dy) + " must begin with the extents of the indices " + text(index));
  Gather g{attrs.integer("rows"), 1, elements(index), index.dtype, attrs.integer("first"), 0, {}};
  g.total = g.rows;
  g.accumulate = accumulate;
  g.out = {g.rows};
  for (uint32_t i = index.ndim; i < dy.ndim; ++i) {
    g.width *= dy.dims[i];
    g.out.push_back(dy.dims[i]);
  }
  // Many rows may add up in one: not in 16 bits.
  const uint32_t sum = dtype_bytes(dy.dtype) == 2 ? uint32_t{PLAIT_F32} : dy.dtype;
  need_output(d, g, sum);
  if (accumulate) {
    need(d.inputs[2].dtype == sum,
         "adds to " + text(d.inputs[2]) + ", expected type " + std::string(dtype_name(sum)));
    need_count(d.inputs[2], g.rows * g.width, "what it adds to");
  }
  return g;
}

Gather parse_one_hot(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  need_index(d.inputs[0], "index");
  Gather g{0,
           AttrReader(d, kOneHotAttrs).integer("depth"),
           elements(d.inputs[0]),
           d.inputs[0].dtype,
           0,
           0,
           {}};
  g.out.assign(d.inputs[0].dims, d.inputs[0].dims + d.inputs[0].ndim);
  g.out.push_back(g.width);
  if (has_outputs(d)) need_count(d.outputs[0], g.count * g.width, "y");
  return g;
}

}  // namespace plait::kit

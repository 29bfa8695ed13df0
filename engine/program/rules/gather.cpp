// Rows by index (embeddings), their gradient, and one-hot rows. V rows of a table, I.. indices, C.. channels.
//
// Of a part of a table (attributes first, total: its first row, rows of all parts) gather makes zeros for the rows of other parts,
// and scatter_add leaves them out.
#include "engine/base/error.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {
namespace {

void check_index(const Application& a, const plait_shape& index) {
  if (is_float(index.dtype) || index.dtype == PLAIT_BOOL)
    fail_invalid(a.where() + " needs integer indices, found " + text(index));
}

std::vector<plait_shape> infer_gather(const Application& a) {
  a.arity(2, 2);
  check_index(a, a.in[1]);
  if (a.in[0].ndim < 1) fail_invalid(a.where() + " needs a table (V, C..), found " + text(a.in[0]));
  Dims dims = dims_of(a.in[1]);
  for (uint32_t i = 1; i < a.in[0].ndim; ++i) dims.push_back(a.in[0].dims[i]);
  return {make_shape(a.in[0].dtype, dims)};
}
void gradient_gather(Use& u) {
  u.d_in[0] = u.g.apply1("scatter_add", {u.d_out[0], u.op.in[1]},
                         {attr("rows", u.g.shape(u.op.in[0]).dims[0])});
}

std::vector<plait_shape> infer_scatter(const Application& a) {
  a.arity(2, 2);
  check_index(a, a.in[1]);
  const plait_shape &d = a.in[0], &index = a.in[1];
  bool fits = d.ndim >= index.ndim;
  for (uint32_t i = 0; fits && i < index.ndim; ++i) fits = d.dims[i] == index.dims[i];
  if (!fits)
    fail_invalid(a.where() + " " + text(d) + " must begin with the extents of the indices " +
                 text(index));
  Dims dims{a.attrs.integer("rows", 0)};
  for (uint32_t i = index.ndim; i < d.ndim; ++i) dims.push_back(d.dims[i]);
  return {make_shape(d.dtype, dims)};
}
void gradient_scatter(Use& u) { u.d_in[0] = u.g.apply1("gather", {u.d_out[0], u.op.in[1]}); }

std::vector<plait_shape> infer_one_hot(const Application& a) {
  a.arity(1, 1);
  check_index(a, a.in[0]);
  Dims dims = dims_of(a.in[0]);
  dims.push_back(a.attrs.integer("depth", 0));
  return {make_shape(a.float_type, dims)};
}

}  // namespace

extern const Rule kGather, kScatterAdd, kOneHot;
const Rule kGather{.name = "gather",
                   .infer = infer_gather,
                   .gradient = gradient_gather,
                   .sharding = shard_gather,
                   .write_sharded = write_sharded_gather};
const Rule kScatterAdd{"scatter_add", infer_scatter,       gradient_scatter, nullptr,
                       false,         CollectiveOp::kNone, shard_scatter};
const Rule kOneHot{"one_hot", infer_one_hot, nullptr};

}  // namespace plait::program

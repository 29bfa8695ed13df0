// Rows by index (embeddings), their gradient, and one-hot rows. V rows of a table, I.. indices, C..
// channels.
#include "kit/ops/gather.hpp"

#include <plait/comm.h>

#include <limits>

#include "engine/program/op_def.hpp"
#include "engine/program/per_sample.hpp"
#include "engine/program/quantize.hpp"
#include "engine/program/shard.hpp"
#include "engine/program/with_cache.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_gather(const InferContext& c) {
  return {c.like_first(kit::parse_gather(c.desc).out)};
}
void vjp_gather(VjpContext& u) {
  u.d_in[0] = u.g.apply1("scatter_add", {u.d_out[0], u.op.in[1]},
                         {attr("rows", u.g.shape(u.op.in[0]).dims[0])});
}

std::vector<plait_shape> infer_scatter(const InferContext& c) {
  const Dims out = kit::parse_scatter_add(c.desc).out;
  return {make_shape(accumulation_dtype(c.in[0].dtype), out)};
}
void vjp_scatter(VjpContext& u) { u.d_in[0] = u.g.apply1("gather", {u.d_out[0], u.op.in[1]}); }

std::vector<plait_shape> infer_one_hot(const InferContext& c) {
  return {make_shape(c.float_type, kit::parse_one_hot(c.desc).out)};
}

std::optional<IndexUse> index_use(const Graph& g, const Op& op) {
  return IndexUse{1, 0, g.shape(op.in[0]).dims[0], false};
}

std::optional<WeightUse> weight_use(const Graph& g, const Op& op) {
  if (g.shape(op.in[0]).ndim != 2) return std::nullopt;
  return WeightUse{.input = 1, .weight = 0, .is_table = true};
}

std::optional<size_t> reads_weight(const Graph& g, const Op& op) {
  if (g.shape(op.in[0]).ndim != 2) return std::nullopt;
  return 0;
}
ValueId write_quantized(Graph& g, const Op& op, const QuantizedRows& rows) {
  const plait_shape& table = g.shape(op.in[0]);
  Attrs attrs{attr("format", rows.format), attr("columns", table.dims[1]),
              attr("dtype", static_cast<int64_t>(table.dtype))};
  for (const char* part : {"first", "total"})
    if (const program::Attr* a = op.attrs.find(part)) attrs.set(*a);
  return g.apply1("gather_quantized", {rows.numbers, rows.scales, op.in[1]}, std::move(attrs));
}

// Rows of a table (V, C..): its channels may be sharded, for the gradient of the rows alike; or the
// indices, then each rank has the rows of its own.
bool shard_gather(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t,
                  Sharding& s) {
  if (have[0].dim == 0) return false;
  if (have[0].is_shard()) {
    s.in[0] = have[0];
    s.out[0] = shard_along(have[0].dim - 1 + static_cast<int32_t>(g.shape(op.in[1]).ndim));
  } else {
    s.in[1] = s.out[0] = have[1];
  }
  return true;
}
bool shard_scatter(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t,
                   Sharding& s) {
  const auto index_ndim = static_cast<int32_t>(g.shape(op.in[1]).ndim);
  // Sharded rows are gathered: to sum the ranks' terms of a whole table costs more.
  if (have[0].dim < index_ndim || have[1].is_shard()) return false;
  s.in[0] = have[0];
  s.out[0] = shard_along(have[0].dim - index_ndim + 1);
  return true;
}

// Rows that lie elsewhere are zeros here; the sum has them all.
bool write_sharded_gather(ShardContext& u) {
  if (u.have[0] != shard_along(0)) return false;
  u.out = {u.to.apply1("gather", {u.input(0, u.have[0]), u.input(1, kReplicated)},
                       attrs_of_rank(u, u.from.shape(u.op.in[0]).dims[0]))};
  u.out_placement = {partial(PLAIT_COMM_SUM)};
  return true;
}

// Rows that indices add to are made in part, not cut out.
bool can_make_rows(const PartQuery& q) { return q.dim == 0; }
ValueId make_rows(ShardContext& u, int32_t, const plait_shape& part) {
  return u.to.apply1("scatter_add", {u.input(0, kReplicated), u.input(1, kReplicated)},
                     {attr("rows", part.dims[0]), attr("first", u.rank * part.dims[0])});
}

// Row i of each table, behind each other: row i of table l is row i * G + l. So a table of which
// each rank has some of the rows stays where it is.
PerSampleResult gather_per_sample(PerSampleContext& c) {
  using Kind = PerSampleContext::Kind;
  if (!c.is(0, Kind::kStack) || !c.is(1, Kind::kRows))
    return {.refused = "it looks up rows of the samples in tables of their own, nothing else"};
  Graph& g = c.g;
  Dims perm{1, 0}, dims = c.dims(0);
  for (size_t d = 1; d < dims.size(); ++d) perm.push_back(static_cast<int64_t>(d) + 1);
  dims.at(0) *= c.stacked;
  ValueId table = c.in[0].value;
  if (c.stacked > 1) table = g.apply1("transpose", {table}, {attr("perm", perm)});
  // Numbers up to 2^53, and then integers again.
  const auto as = [&](ValueId v, int64_t dtype) {
    return g.apply1("cast", {v}, {attr("dtype", dtype)});
  };
  const plait_shape& of_index = g.shape(c.in[1].value);
  Dims along(of_index.ndim, 1);
  along[0] = of_index.dims[0];
  const ValueId own = reshaped(g, as(c.index, PLAIT_F64), along);
  // One at or above G is none of theirs, whatever the row.
  const ValueId unknown = binary(g, "le", g.constant(static_cast<double>(c.stacked)), own);
  const ValueId first = scaled(g, as(c.in[1].value, PLAIT_F64), static_cast<double>(c.stacked));
  const ValueId number = binary(g, "add", binary(g, "add", first, own),
                                scaled(g, unknown, static_cast<double>(dims[0])));
  const bool wide = dims[0] > std::numeric_limits<int32_t>::max();
  return {g.apply1("gather", {reshaped(g, table, dims), as(number, wide ? PLAIT_I64 : PLAIT_I32)})};
}

// Generation. A sample has its own table (S, C..) of G in all, (G, S, C..), of which a launch reads
// rows: row p of table l is row l * S + p. A number of no table, from G on, stays one of no row.
void write_rows_of_tables(TableContext& u) {
  const ValueId tables = u.whole(0), index = u.whole(1);
  if (u.dim != 1 || !tables || !index || u.to.shape(index).ndim != 1) return;
  Graph& g = u.to;
  Dims dims = dims_of(g.shape(tables));
  const int64_t samples = g.shape(index).dims[0], rows = dims[1];
  dims[1] *= dims[0];
  dims.erase(dims.begin());
  const auto as = [&](ValueId v, int64_t dtype) {
    return g.apply1("cast", {v}, {attr("dtype", dtype)});
  };
  const ValueId first =
      scaled(g, reshaped(g, as(index, PLAIT_F64), {samples, 1}), static_cast<double>(rows));
  const ValueId number = binary(g, "add", as(u.positions, PLAIT_F64), first);
  const bool wide = dims[0] > std::numeric_limits<int32_t>::max();
  u.out = {
      g.apply1("gather", {reshaped(g, tables, dims), as(number, wide ? PLAIT_I64 : PLAIT_I32)})};
}

std::vector<OpExample> gather_examples() {
  return {{.inputs = {{6, 3}}, .indices = {{0, 5, 2, 2}}, .index_dims = {2, 2}}};
}
std::vector<OpExample> scatter_examples() {
  return {{.inputs = {{2, 2, 3}},
           .attrs = {attr("rows", int64_t{6})},
           .indices = {{0, 5, 2, 2}},
           .index_dims = {2, 2}}};
}
// Along every dimension of the indices.
bool shard_one_hot(const Graph&, const Op&, const std::vector<Placement>& have, int64_t,
                   Sharding& s) {
  s.in[0] = s.out[0] = have[0];
  return true;
}
std::vector<OpExample> one_hot_examples() {
  return {{.inputs = {},
           .attrs = {attr("depth", int64_t{4})},
           .indices = {{0, 3, 2}},
           .index_dims = {3}}};
}

}  // namespace

std::span<const OpDef> gather_ops() {
  static const OpDef kOps[] = {
      {.name = "gather",
       .help = "rows of a table by their numbers",
       .signature = "table (V, C..), index (I..) -> y (I.., C..)",
       .dtypes = "table of any type, index i32, i64 or u8",
       .rewrite_attrs = kit::kGatherPart,
       .infer = infer_gather,
       .vjp = vjp_gather,
       .precision = PrecisionClass::kTable,
       .typed_operands = 1,
       .index_use = index_use,
       .weight_use = weight_use,
       .shard = shard_gather,
       .write_sharded = write_sharded_gather,
       .write_at = write_rows_of_tables,
       .reads_weight = reads_weight,
       .write_quantized = write_quantized,
       .per_sample = gather_per_sample,
       .examples = gather_examples},
      {.name = "scatter_add",
       .help = "adds rows to those rows of zeros that the indices name",
       .signature = "dy (I.., C..), index (I..) [, sum (rows, C..)] -> y (rows, C..)",
       .dtypes = "dy floats, index i32, i64 or u8; y as dy, of 16 bits f32",
       .attrs = kit::kScatterAddAttrs,
       .rewrite_attrs = kit::kScatterAddPart,
       .infer = infer_scatter,
       .vjp = vjp_scatter,
       .folds = kFoldAccumulate,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 1,
       .shard = shard_scatter,
       .can_make_part = can_make_rows,
       .make_part = make_rows,
       .examples = scatter_examples},
      {.name = "one_hot",
       .help = "a row with 1 at the index and 0 elsewhere",
       .signature = "index (I..) -> y (I.., depth)",
       .dtypes = "index i32, i64 or u8; y f32",
       .attrs = kit::kOneHotAttrs,
       .infer = infer_one_hot,
       .precision = PrecisionClass::kFollow,
       .shard = shard_one_hot,
       .examples = one_hot_examples}};
  return kOps;
}

}  // namespace plait::program

// reduce of floats by up to two passes: over the last axis, where it is reduced, and over an axis
// before the last. Long sums are cut into parts, which are joined in their order; how they are cut
// follows from the shape alone, so that every card adds in one order.
#include <algorithm>
#include <utility>

#include "kit/dtype.hpp"
#include "kit/ops/reduce.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/reduce_fast_args.hpp"

namespace plait::cuda {
namespace {

using kit::ReduceKind;

constexpr int64_t kThreads = 256, kLongRow = 16384;
constexpr int64_t kLeastStack = 32, kMostStacks = 256;  // rows of a stack, stacks of a batch
constexpr int64_t kManyBlocks = 1024;                   // more of them keep no card busier

// Elements of 16 bytes.
int64_t pack_of(uint32_t dtype) { return 16 / static_cast<int64_t>(kit::dtype_bytes(dtype)); }
// The least power of two from n on, at most `most`.
uint32_t lanes_for(int64_t n, uint32_t most) {
  uint32_t lanes = 1;
  while (lanes < most && lanes < n) lanes *= 2;
  return lanes;
}
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One launch; x and y are set in run().
struct RowsPass {
  uint32_t dtype = 0;  // of x
  ReduceRowsArgs args{};
};
RowsPass rows_pass(uint32_t dtype, int64_t rows, int64_t n, ReduceKind kind, bool cut) {
  RowsPass p{dtype};
  p.args.rows = rows;
  p.args.n = n;
  p.args.part = cut && n > kLongRow && rows < kManyBlocks ? kLongRow : n;
  p.args.parts = ceil_div(n, p.args.part);
  p.args.kind = static_cast<uint32_t>(kind);
  p.args.packed = n % pack_of(dtype) == 0;
  const int64_t packs = p.args.packed ? p.args.part / pack_of(dtype) : p.args.part;
  p.args.lanes = packs > kThreads ? kThreads : lanes_for(ceil_div(packs, 4), 32);
  return p;
}

struct ColumnsPass {
  uint32_t dtype = 0;
  ReduceColumnsArgs args{};
};
ColumnsPass columns_pass(uint32_t dtype, int64_t batch, int64_t rows, int64_t cols, ReduceKind kind,
                         bool cut) {
  ColumnsPass p{dtype};
  ReduceColumnsArgs& a = p.args;
  a.batch = batch;
  a.rows = rows;
  a.cols = cols;
  a.kind = static_cast<uint32_t>(kind);
  a.packed = cols % pack_of(dtype) == 0;
  const int64_t packs = a.packed ? cols / pack_of(dtype) : cols;
  a.width = lanes_for(packs, 32);
  a.tiles = ceil_div(packs, a.width);
  const int64_t enough = std::max<int64_t>(kManyBlocks / (batch * a.tiles), 1);
  const int64_t stacks = std::min({ceil_div(rows, kLeastStack), kMostStacks, enough});
  a.stack = cut ? ceil_div(rows, stacks) : rows;
  a.stacks = ceil_div(rows, a.stack);
  return p;
}

// The passes of a call, in their order; each one reads what the one before it has written.
struct Plan {
  std::vector<RowsPass> rows;
  std::vector<ColumnsPass> columns;
  std::string refused;  // why there is none
  // Elements that lie between the passes: results of rows, then stacks of columns. Both alternate
  // with the joined ones, so that no pass writes what it reads.
  int64_t of_rows = 0, of_row_parts = 0, of_stacks = 0;
  uint32_t sums = PLAIT_F32;  // type of what lies between
  uint64_t bytes(int64_t n) const {
    return (static_cast<uint64_t>(n) * kit::dtype_bytes(sums) + 63) / 64 * 64;
  }
  uint64_t workspace() const { return bytes(of_rows) + bytes(of_row_parts) + bytes(of_stacks); }
};

Plan plan_of(const kit::Reduce& r, uint32_t dtype) {
  Plan p;
  p.sums = dtype == PLAIT_F64 ? PLAIT_F64 : PLAIT_F32;
  std::vector<kit::Reduce::Dim> dims = r.dims;
  if (r.kept == 0 || r.summed <= 1) {
    p.refused = "there is nothing to add";
    return p;
  }
  const bool rows = r.reduced.back();
  const size_t left = dims.size() - (rows ? 1 : 0);
  if (left > 3 || (left == 3 && r.reduced[0])) {
    p.refused = "the axes make more than four groups";
    return p;
  }
  const ReduceKind join = r.kind == ReduceKind::max ? r.kind : ReduceKind::sum;
  const bool columns = left >= 2;
  if (rows) {
    const int64_t n = dims.back().extent;
    int64_t count = 1;
    for (size_t i = 0; i < left; ++i) count *= dims[i].extent;
    p.rows.push_back(rows_pass(dtype, count, n, r.kind, true));
    const int64_t parts = p.rows[0].args.parts;
    if (parts > 1) {
      p.rows.push_back(rows_pass(p.sums, count, parts, join, false));
      p.of_row_parts = count * parts;
    }
    if (columns) p.of_rows = count;
  }
  if (!columns) return p;
  const int64_t batch = left == 3 ? dims[0].extent : 1, tall = dims[left - 2].extent,
                wide = dims[left - 1].extent;
  p.columns.push_back(
      columns_pass(rows ? p.sums : dtype, batch, tall, wide, rows ? join : r.kind, true));
  if (const int64_t stacks = p.columns[0].args.stacks; stacks > 1) {
    p.columns.push_back(columns_pass(p.sums, batch, stacks, wide, join, false));
    p.of_stacks = batch * stacks * wide;
  }
  return p;
}

// The functions of one type.
struct Functions {
  Functions(plait_device* device, uint32_t dtype)
      : rows(device, "reduce_fast", pick(dtype, kRows)),
        columns(device, "reduce_fast", pick(dtype, kColumns)) {}
  Function rows, columns;

 private:
  using Names = const char* const[4];
  static constexpr Names kRows = {"reduce_rows_f32", "reduce_rows_f64", "reduce_rows_bf16",
                                  "reduce_rows_f16"},
                         kColumns = {"reduce_columns_f32", "reduce_columns_f64",
                                     "reduce_columns_bf16", "reduce_columns_f16"};
  static const char* pick(uint32_t dtype, const Names& names) {
    return names[dtype == PLAIT_F32 ? 0 : dtype == PLAIT_F64 ? 1 : dtype == PLAIT_BF16 ? 2 : 3];
  }
};

class FastReduce {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Reduce r = kit::parse_reduce(d);
    if (!kit::is_float(d.inputs[0].dtype) || !kit::is_float(d.outputs[0].dtype)) {
      why = "not of floats";
      return false;
    }
    const Plan p = plan_of(r, d.inputs[0].dtype);
    choice.workspace = p.workspace();
    why = !p.refused.empty()  ? p.refused
          : p.columns.empty() ? "rows"
          : p.rows.empty()    ? "columns"
                              : "rows, then columns";
    return p.refused.empty();
  }
  FastReduce(plait_device* device, const plait_op_desc& d)
      : plan_(plan_of(kit::parse_reduce(d), d.inputs[0].dtype)),
        result_(d.outputs[0].dtype),
        first_(device, d.inputs[0].dtype),
        then_(device, plan_.sums) {}

  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    auto* at = static_cast<char*>(workspace);
    const auto room = [&](int64_t n) {
      return AnyPointer{std::exchange(at, at + plan_.bytes(n)), plan_.sums, 0};
    };
    const AnyPointer row_parts = room(plan_.of_row_parts), rows = room(plan_.of_rows),
                     stacks = room(plan_.of_stacks), y{operands[1], result_, 0};
    const void* x = operands[0];
    for (size_t i = 0; i < plan_.rows.size(); ++i) {
      ReduceRowsArgs args = plan_.rows[i].args;
      args.x = x;
      args.y = i + 1 < plan_.rows.size() ? row_parts : plan_.columns.empty() ? y : rows;
      const int64_t groups = kThreads / args.lanes;
      (x == operands[0] ? first_ : then_)
          .rows.launch(queue, {blocks_of_stride(args.rows * args.parts, groups)}, kThreads, args);
      x = args.y.data;
    }
    for (size_t i = 0; i < plan_.columns.size(); ++i) {
      ReduceColumnsArgs args = plan_.columns[i].args;
      args.x = x;
      args.y = i + 1 < plan_.columns.size() ? stacks : y;
      (x == operands[0] ? first_ : then_)
          .columns.launch(queue, {blocks_of_stride(args.batch * args.stacks * args.tiles, 1)},
                          kThreads, args);
      x = args.y.data;
    }
  }

 private:
  Plan plan_;
  uint32_t result_;
  Functions first_, then_;
};

}  // namespace

void add_reduce_fast(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<FastReduce>("tree", "reduce", "cuda", 10));
}

}  // namespace plait::cuda

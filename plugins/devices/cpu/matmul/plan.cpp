#include "plugins/devices/cpu/matmul/plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plugins/devices/cpu/matmul/cost.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"

namespace plait::cpu {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kMaxDisplacement = int64_t{1} << 30;
// Cost of waking the pool, joining it, and fetching the other threads' results from their caches.
constexpr double kThreadStartCycles = 20000;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
size_t round_up(int64_t a, int64_t b) { return static_cast<size_t>(ceil_div(a, b) * b); }

// Splits rows into tiles of nearly equal height.
void cut_rows(Panel& panel, const JitPlan& plan) {
  const int64_t rows = plan.rows;
  int64_t tallest = max_rows(plan.isa, panel.vecs);
  // A tile reads its rows of P in parallel, one line of each at a time.
  if (plan.p_k == 1) tallest = std::min(tallest, lines_kept(plan.p_row * kFloat));
  const int64_t tiles = ceil_div(rows, tallest);
  panel.rows_lo = static_cast<int>(rows / tiles);
  panel.tiles_hi = rows % tiles;
  panel.tiles_lo = tiles - panel.tiles_hi;
  panel.rows_hi = panel.rows_lo + (panel.tiles_hi > 0 ? 1 : 0);
}

double panel_cycles(const Panel& panel, Isa isa, int64_t k, const QCost& q) {
  double cycles = 0;
  if (panel.tiles_hi > 0) {
    cycles +=
        static_cast<double>(panel.tiles_hi) * tile_cycles(isa, panel.rows_hi, panel.vecs, k, q);
  }
  return cycles +
         static_cast<double>(panel.tiles_lo) * tile_cycles(isa, panel.rows_lo, panel.vecs, k, q);
}

QCost q_cost(const JitPlan& plan, int vecs) {
  if (plan.packing != Packing::none) return {};
  const int64_t row_bytes = plan.q_k * kFloat;
  const int64_t vector_bytes = lanes_of(plan.isa) * kFloat;
  // A row start is aligned once in (vector / gcd) rows; all other vectors cross a line.
  const int64_t step = row_bytes % vector_bytes;
  QCost cost;
  if (step != 0) {
    int64_t cycle = 1;
    while ((cycle * step) % vector_bytes != 0) ++cycle;
    cost.loads = 2.0 - 1.0 / static_cast<double>(cycle);
  }
  if (plan.k > k_limit(plan.isa, vecs, row_bytes)) cost.stall = 0.4;
  return cost;
}

// Chooses the widths of the panels that minimise the estimate.
double choose_panels(JitPlan& plan) {
  const int lanes = lanes_of(plan.isa);
  const int64_t vectors = ceil_div(plan.lanes, lanes);
  const int widest = max_vecs(plan.isa);
  std::vector<double> cost_of(static_cast<size_t>(widest) + 1);
  for (int vecs = 1; vecs <= widest; ++vecs) {
    Panel panel;
    panel.vecs = vecs;
    cut_rows(panel, plan);
    cost_of[vecs] = panel_cycles(panel, plan.isa, plan.k, q_cost(plan, vecs));
  }
  std::vector<double> best(static_cast<size_t>(vectors) + 1, std::numeric_limits<double>::max());
  std::vector<int> choice(best.size(), 0);
  best[0] = 0;
  for (int64_t total = 1; total <= vectors; ++total) {
    for (int vecs = 1; vecs <= std::min<int64_t>(widest, total); ++vecs) {
      const double cost = best[total - vecs] + cost_of[vecs];
      if (cost < best[total]) {
        best[total] = cost;
        choice[total] = vecs;
      }
    }
  }
  std::vector<int> widths;
  for (int64_t left = vectors; left > 0; left -= choice[left]) widths.push_back(choice[left]);
  std::sort(widths.rbegin(), widths.rend());
  int64_t first = 0;
  for (const int vecs : widths) {
    Panel panel;
    panel.vecs = vecs;
    panel.first_lane = first;
    panel.lanes = std::min<int64_t>(int64_t{vecs} * lanes, plan.lanes - first);
    cut_rows(panel, plan);
    first += panel.lanes;
    if (!plan.kinds.empty() && plan.kinds.back().first.vecs == vecs &&
        plan.kinds.back().first.lanes == panel.lanes) {
      ++plan.kinds.back().count;
      continue;
    }
    if (!plan.kinds.empty()) panel.first_tile = plan.all_tiles();
    panel.kind = static_cast<int>(plan.kinds.size());
    plan.kinds.push_back({panel, 1});
  }
  return best[vectors];
}

void cut_k(JitPlan& plan) {
  int64_t limit = plan.k;
  for (const PanelKind& kind : plan.kinds) {
    limit = std::min(limit, k_limit(plan.isa, kind.first.vecs, 0));
  }
  const int64_t blocks = ceil_div(plan.k, std::max<int64_t>(limit, 64));
  const int64_t size = static_cast<int64_t>(round_up(ceil_div(plan.k, blocks), 16));
  for (int64_t first = 0; first < plan.k; first += size) {
    plan.k_blocks.push_back({first, std::min(size, plan.k - first)});
  }
}

// Splits the work between threads: by whole panels and products of the batch, or by rows of each
// panel.
void split_over_threads(JitPlan& plan, double product_cycles, double per_panel_extra) {
  const int64_t units = plan.desc.batch * plan.n_panels();
  const double all = (product_cycles + per_panel_extra) * static_cast<double>(plan.desc.batch);
  plan.cycles = plan.cycles_alone = all;
  for (int threads = 2; threads <= plan.desc.threads; ++threads) {
    const double by_unit =
        all * static_cast<double>(ceil_div(units, threads)) / static_cast<double>(units);
    int64_t tiles = std::numeric_limits<int64_t>::max();
    for (const PanelKind& kind : plan.kinds) tiles = std::min(tiles, kind.first.tiles());
    const double share_of_rows =
        static_cast<double>(ceil_div(tiles, threads)) / static_cast<double>(tiles);
    const double by_rows =
        (product_cycles * share_of_rows + per_panel_extra) * static_cast<double>(plan.desc.batch);
    const double best = std::min(by_unit, by_rows) + kThreadStartCycles;
    if (best >= plan.cycles) continue;
    plan.cycles = best;
    plan.threads = threads;
    plan.row_splits = by_unit <= by_rows ? 1 : threads;
  }
}

JitPlan plan_one(const MatmulDesc& desc, Isa isa, bool transposed, bool copy) {
  JitPlan plan;
  plan.desc = desc;
  plan.isa = isa;
  plan.transposed = transposed;
  plan.k = desc.k;
  const int64_t a_m = desc.transpose_a ? 1 : desc.k;
  const int64_t a_k = desc.transpose_a ? desc.m : 1;
  const int64_t b_n = desc.transpose_b ? desc.k : 1;
  const int64_t b_k = desc.transpose_b ? 1 : desc.n;
  plan.rows = transposed ? desc.n : desc.m;
  plan.lanes = transposed ? desc.m : desc.n;
  plan.p_row = transposed ? b_n : a_m;
  plan.p_k = transposed ? b_k : a_k;
  plan.q_k = transposed ? a_k : b_k;
  plan.q_lane = transposed ? a_m : b_n;
  plan.packing = plan.q_lane != 1 ? Packing::transpose : copy ? Packing::copy : Packing::none;

  const int lanes = lanes_of(isa);
  const double product_cycles = choose_panels(plan);
  cut_k(plan);
  const double vectors = static_cast<double>(ceil_div(plan.lanes, lanes));
  double extra = 0;
  if (plan.packing != Packing::none) {
    extra += vectors * static_cast<double>(plan.k) *
             pack_cycles(isa, plan.packing == Packing::transpose);
  }
  if (transposed) extra += vectors * static_cast<double>(plan.rows) * pack_cycles(isa, true);
  split_over_threads(plan, product_cycles, extra);

  int64_t widest = 0;
  for (const PanelKind& kind : plan.kinds) widest = std::max<int64_t>(widest, kind.first.vecs);
  const int64_t line_floats = 16;
  if (plan.packing != Packing::none) {
    plan.pack_floats = round_up(plan.k_blocks.front().size * widest * lanes, line_floats);
  }
  if (transposed) plan.scratch_floats = round_up(plan.rows * widest * lanes, line_floats);
  if (desc.squares) {
    plan.squares_floats = static_cast<size_t>(plan.all_tiles() * desc.batch * lanes);
  }
  return plan;
}

}  // namespace

std::string jit_refusal(const MatmulDesc& d) {
  if (d.batch == 0 || d.m == 0 || d.n == 0) return "the result is empty";
  if (d.k == 0) return "nothing is summed";
  constexpr int64_t kTallest = 64;
  if (std::max({d.m, d.n, d.k}) > kMaxDisplacement / kFloat / kTallest) {
    return "a stride exceeds an address displacement";
  }
  return {};
}

JitPlan plan_jit(const MatmulDesc& desc, Isa isa) {
  JitPlan best;
  best.refusal = jit_refusal(desc);
  if (!best.refusal.empty()) return best;
  best = plan_one(desc, isa, false, false);
  const auto consider = [&best](JitPlan plan) {
    // Uses the estimate for one thread, so that tiles, and with them the order of every sum, don't
    // depend on the number of threads.
    if (plan.cycles_alone < best.cycles_alone) best = std::move(plan);
  };
  if (best.packing == Packing::none) consider(plan_one(desc, isa, false, true));
  consider(plan_one(desc, isa, true, false));
  return best;
}

KernelSpec kernel_spec(const JitPlan& plan, const Panel& panel, size_t k_block) {
  const bool first = k_block == 0;
  const bool last = k_block + 1 == plan.k_blocks.size();
  const int64_t panel_width = int64_t{panel.vecs} * lanes_of(plan.isa);
  KernelSpec spec;
  spec.isa = plan.isa;
  spec.rows_hi = panel.rows_hi;
  spec.rows_lo = panel.rows_lo;
  spec.vecs = panel.vecs;
  spec.last_lanes = static_cast<int>(panel.lanes - int64_t{panel.vecs - 1} * lanes_of(plan.isa));
  spec.k = plan.k_blocks[k_block].size;
  spec.p_row = plan.p_row * kFloat;
  spec.p_k = plan.p_k * kFloat;
  const bool packed = plan.packing != Packing::none;
  const bool partial = spec.last_lanes < lanes_of(plan.isa);
  spec.q_k = (packed ? panel_width : plan.q_k) * kFloat;
  spec.d_row = (plan.transposed ? panel_width : plan.desc.n) * kFloat;
  spec.mask_q = partial && !packed;
  spec.mask_d = partial && !plan.transposed;
  // Transposed sums reach C only when they are transposed back.
  spec.add = !first || (plan.desc.accumulate && !plan.transposed);
  spec.bias = last && plan.desc.bias;
  spec.bias_per_row = plan.transposed;
  spec.relu = last && plan.desc.activation == Activation::relu;
  spec.squares = last && plan.desc.squares;
  return spec;
}

}  // namespace plait::cpu

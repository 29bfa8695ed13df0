#include "plugins/devices/cpu/matmul/blocked_plan.hpp"

#include <algorithm>

#include "plugins/devices/cpu/matmul/cost.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/quantized.hpp"

namespace plait::cpu {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int kVecs = 2;
// Whole blocks of quantized weights; a panel of B then takes 32 KiB with AVX-512, 16 with AVX2.
constexpr int64_t kLongestBlock = 256;

// Pairs of summands of which all of a block of rows is packed. With more, the block would have so
// few rows that oneDNN, which need not pack B for each, is faster (measured on Zen 4).
constexpr int64_t kLongestWhole = 768;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The largest number of tiles that use one packed panel.
int64_t tiles_of_panel(const BlockedPlan& plan) {
  const bool rows_cut = plan.thread_range(0, plan.threads).last_tile < plan.tiles();
  return std::min(plan.tiles_per_block,
                  rows_cut ? ceil_div(plan.tiles(), plan.threads) : plan.tiles());
}

// While a panel of B is multiplied, the lines of the next one are prefetched.
void prefetch_next(const BlockedPlan& plan, int64_t width, KernelSpec& spec) {
  const bool transposed = plan.desc.transpose_b;
  const int64_t element = plan.b_bytes(), summands = plan.pairs ? 2 * spec.k : spec.k;
  const int64_t row = (transposed ? plan.desc.k : plan.desc.n) * element;
  if (summands * row > INT32_MAX) return;  // limit of an address displacement
  spec.prefetch_rows = ceil_div(transposed ? width : summands, tiles_of_panel(plan));
  spec.prefetch_stride = row;
  spec.prefetch_row_bytes = (transposed ? summands : width) * element;
}

}  // namespace

int64_t BlockedPlan::first_row(int64_t tile) const {
  return std::min(tile, tiles_hi) * rows_hi + std::max<int64_t>(tile - tiles_hi, 0) * rows_lo;
}

BlockedRange BlockedPlan::thread_range(int thread, int of_threads) const {
  BlockedRange all{0, desc.batch, 0, tiles(), 0, panels};
  const auto cut = [=](int64_t& first, int64_t& last) {
    const int64_t count = last;
    first = count * thread / of_threads;
    last = count * (thread + 1) / of_threads;
  };
  // Splitting by columns packs A once per thread, splitting by rows packs B once per thread.
  if (desc.batch >= of_threads) {
    cut(all.first_item, all.last_item);
  } else if (desc.n >= desc.m) {
    cut(all.first_panel, all.last_panel);
  } else {
    cut(all.first_tile, all.last_tile);
  }
  return all;
}

size_t BlockedPlan::a_floats() const {
  const int64_t k =
      whole_k() ? k_blocks.back().first + k_blocks.back().size : k_blocks.front().size;
  return static_cast<size_t>(tiles_per_block * slots * k);
}

size_t BlockedPlan::b_floats() const {
  return static_cast<size_t>(panel_lanes * k_blocks.front().size);
}

size_t BlockedPlan::wide_floats() const {
  if (pairs) return whole_k() ? static_cast<size_t>(tiles_per_block * rows_hi * panel_lanes) : 0;
  if (desc.widen_a == nullptr && b_bytes() > 0) return 0;
  return static_cast<size_t>(std::max<int64_t>(panel_lanes, slots) * k_blocks.front().size);
}

size_t BlockedPlan::squares_floats() const {
  return desc.squares ? static_cast<size_t>(desc.batch * panels * tiles() * lanes_of(isa)) : 0;
}

BlockedPlan plan_blocked(const MatmulDesc& desc, Isa isa, bool pairs) {
  BlockedPlan plan;
  plan.refusal = jit_refusal(desc);
  if (pairs && desc.k % 2 != 0) plan.refusal = "an odd number of summands";
  if (!plan.refusal.empty()) return plan;
  plan.pairs = pairs;
  const int lanes = lanes_of(isa);
  plan.desc = desc;
  plan.isa = isa;
  const int64_t tiles = ceil_div(desc.m, max_rows(isa, kVecs));
  plan.rows_lo = static_cast<int>(desc.m / tiles);
  plan.tiles_hi = desc.m % tiles;
  plan.tiles_lo = tiles - plan.tiles_hi;
  plan.rows_hi = plan.rows_lo + (plan.tiles_hi > 0 ? 1 : 0);
  plan.slots = lanes;
  plan.panel_lanes = kVecs * lanes;
  plan.panels = ceil_div(desc.n, plan.panel_lanes);
  plan.last_panel_lanes = desc.n - (plan.panels - 1) * plan.panel_lanes;

  const int64_t summands = pairs ? desc.k / 2 : desc.k;
  const int64_t blocks = ceil_div(summands, kLongestBlock);
  const bool rows_of_b = desc.quantized_b && desc.transpose_b;
  const int64_t step = rows_of_b ? kit::QuantRow{desc.format_b}.block() : lanes;
  const int64_t size = ceil_div(ceil_div(summands, blocks), step) * step;
  for (int64_t first = 0; first < summands; first += size) {
    plan.k_blocks.push_back({first, std::min(size, summands - first)});
  }
  if (plan.whole_k() && summands > kLongestWhole) {
    plan.refusal = "too many summands for a result of bf16";
    return plan;
  }
  const int64_t tile_bytes = plan.slots * (plan.whole_k() ? summands : size) * kFloat;
  plan.tiles_per_block = std::min<int64_t>(
      tiles, std::max<int64_t>(4, second_level_cache_bytes() * 5 / 8 / tile_bytes));

  const int64_t units = desc.batch > 1 ? desc.batch : std::max(plan.panels, tiles);
  constexpr int64_t kProductsWorthAThread = 1 << 20;
  const int64_t products = desc.batch * ceil_div(desc.m * desc.n, kProductsWorthAThread) * desc.k;
  plan.threads = static_cast<int>(
      std::max<int64_t>(1, std::min<int64_t>(std::min(units, products), desc.threads)));

  const double k = static_cast<double>(summands);
  const double m = static_cast<double>(desc.m);
  const double n = static_cast<double>(desc.n);
  const double a_passes = static_cast<double>(ceil_div(tiles, plan.tiles_per_block));
  const double pack = k * (m / plan.rows_lo + n / lanes * a_passes) * pack_cycles(isa, true);
  const double run =
      static_cast<double>(plan.panels * tiles * static_cast<int64_t>(plan.k_blocks.size())) *
      tile_cycles(isa, plan.rows_lo, kVecs, size, {});
  plan.cycles = (pack + run) * static_cast<double>(desc.batch) / plan.threads;
  return plan;
}

KernelSpec blocked_spec(const BlockedPlan& plan, bool last_panel, size_t k_block) {
  const int lanes = lanes_of(plan.isa);
  const int64_t width = last_panel ? plan.last_panel_lanes : plan.panel_lanes;
  const bool last_block = k_block + 1 == plan.k_blocks.size();
  KernelSpec spec;
  spec.isa = plan.isa;
  spec.rows_hi = plan.rows_hi;
  spec.rows_lo = plan.rows_lo;
  spec.vecs = static_cast<int>(ceil_div(width, lanes));
  spec.last_lanes = static_cast<int>(width - int64_t{spec.vecs - 1} * lanes);
  spec.k = plan.k_blocks[k_block].size;
  spec.p_row = kFloat;
  spec.p_k = plan.slots * kFloat;
  spec.p_tile = spec.p_k * spec.k;
  spec.q_k = int64_t{spec.vecs} * lanes * kFloat;
  spec.pairs = plan.pairs;
  spec.d_row = (plan.whole_k() ? plan.panel_lanes : plan.desc.n) * kFloat;
  spec.mask_d = spec.last_lanes < lanes;
  spec.add = k_block > 0 || plan.desc.accumulate;
  spec.bias = last_block && plan.desc.bias;
  spec.relu = last_block && plan.desc.activation == Activation::relu;
  spec.squares = last_block && plan.desc.squares;
  spec.prefetch = true;
  if (!last_panel && plan.b_bytes() > 0) prefetch_next(plan, width, spec);
  return spec;
}

}  // namespace plait::cpu

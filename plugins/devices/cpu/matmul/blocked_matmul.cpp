// Large products: blocks of A and panels of B are packed and multiplied (see blocked_plan.hpp).

#include <algorithm>
#include <array>

#include "plugins/devices/cpu/matmul/activation.hpp"
#include "plugins/devices/cpu/matmul/blocked_plan.hpp"
#include "plugins/devices/cpu/matmul/candidates.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/jit_kernel.hpp"
#include "plugins/devices/cpu/matmul/pack.hpp"
#include "plugins/devices/cpu/matmul/plain.hpp"
#include "plugins/devices/cpu/matmul/quantized.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

// The function for (last panel or not, block of k) is at [block * 2 + last].
std::vector<KernelSpec> all_specs(const BlockedPlan& plan) {
  std::vector<KernelSpec> specs;
  for (size_t block = 0; block < plan.k_blocks.size(); ++block) {
    for (const bool last : {false, true}) specs.push_back(blocked_spec(plan, last, block));
  }
  return specs;
}

WidenQuantized widen_quantized(kit::QuantFormat format, Isa isa) {
  const QuantizedFunctions f = isa == Isa::avx512 ? quantized_avx512() : quantized_avx2();
  return format == kit::QuantFormat::kNf4 ? f.widen_nf4 : f.widen;
}

class BlockedMatmul final : public MatmulKernel {
 public:
  explicit BlockedMatmul(BlockedPlan plan)
      : plan_(std::move(plan)),
        code_(all_specs(plan_)),
        pack_(pack_functions(plan_.isa)),
        row_b_{plan_.desc.format_b, plan_.desc.transpose_b ? plan_.desc.k : plan_.desc.n},
        widen_b_(widen_quantized(row_b_.format, plan_.isa)),
        activate_(plan_.desc.activation == Activation::relu
                      ? nullptr
                      : activation_function(plan_.desc.activation, plan_.isa)) {}

  void run(const MatmulArgs& args) const override {
    if (plan_.threads == 1) {
      run_range(args, plan_.thread_range(0, 1), 0);
    } else {
      run_parallel(args);
    }
    if (plan_.desc.squares) {
      *args.squares = plain_sum(squares(args), static_cast<int64_t>(plan_.squares_floats()));
    }
  }

  std::string_view name() const override {
    if (plan_.pairs) return kBlockedBf16;
    return plan_.isa == Isa::avx512 ? "jit_avx512_blocked" : "jit_avx2_blocked";
  }
  size_t workspace_bytes() const override { return plan_.workspace_bytes(); }

 private:
  void run_parallel(const MatmulArgs& args) const {
    on_pool(plan_.threads, [&](int thread, int threads) {
      run_range(args, plan_.thread_range(thread, threads), static_cast<size_t>(thread));
    });
  }

  // Follows the per-thread parts of the workspace.
  float* squares(const MatmulArgs& args) const {
    return static_cast<float*>(args.workspace) +
           static_cast<size_t>(plan_.threads) * plan_.thread_floats();
  }

  // An operand of f32, or of 16 bits, which are widened or stay pairs.
  struct Source {
    const void* data;
    void (*widen)(const uint16_t*, float*, int64_t);
    int64_t bytes;  // of an element
    Source at(int64_t element) const {
      return {static_cast<const char*>(data) + element * bytes, widen, bytes};
    }
    const float* floats() const { return static_cast<const float*>(data); }
    const uint16_t* halves() const { return static_cast<const uint16_t*>(data); }
  };

  struct Operands {
    Source a, b;
    const float *scales_b, *bias;
    float* c;
    float* squares;  // (panels, tiles, lanes)
    float *packed_a, *packed_b, *wide;
  };

  Source source(const void* data, void (*widen)(const uint16_t*, float*, int64_t)) const {
    if (plan_.pairs) return {data, nullptr, 2};
    return {data, widen, widen ? 2 : 4};
  }

  void run_range(const MatmulArgs& args, const BlockedRange& range, size_t thread) const {
    float* workspace = static_cast<float*>(args.workspace) + thread * plan_.thread_floats();
    const MatmulDesc& d = plan_.desc;
    for (int64_t item = range.first_item; item < range.last_item; ++item) {
      const Operands operands = {
          source(args.a, d.widen_a).at(item * d.batch_stride_a),
          source(args.b, d.widen_b).at(item * d.batch_stride_b),
          args.scales_b,
          args.bias,
          plan_.whole_k() ? reinterpret_cast<float*>(reinterpret_cast<uint16_t*>(args.c) +
                                                     item * d.batch_stride_c)
                          : args.c + item * d.batch_stride_c,
          d.squares ? squares(args) + item * plan_.panels * plan_.tiles() * lanes_of(plan_.isa)
                    : nullptr,
          workspace,
          workspace + plan_.a_floats(),
          workspace + plan_.a_floats() + plan_.b_floats()};
      for (int64_t tile = range.first_tile; tile < range.last_tile; tile += plan_.tiles_per_block) {
        const int64_t last = std::min(tile + plan_.tiles_per_block, range.last_tile);
        if (plan_.whole_k()) {
          run_whole(operands, range, tile, last);
          continue;
        }
        for (size_t block = 0; block < plan_.k_blocks.size(); ++block) {
          pack_a(operands, tile, last, block, operands.packed_a);
          run_block(operands, range, tile, last, block);
        }
      }
    }
  }

  // As PackFunctions::copy_in: a panel (k, w) of a source (k, l).
  void copy_in(const Source& from, int64_t stride, int64_t l, int64_t k, int64_t w,
               float* to) const {
    if (plan_.pairs) return pack_.pair_in(from.halves(), stride, l, k, w, to);
    if (from.widen == nullptr) return pack_.copy_in(from.floats(), stride, l, k, w, to);
    for (int64_t i = 0; i < k; ++i) {
      from.widen(from.halves() + i * stride, to + i * w, l);
      std::fill(to + i * w + l, to + (i + 1) * w, 0.0f);
    }
  }
  // As PackFunctions::transpose_in: a panel (k, w) of a source (l, k).
  void transpose_in(const Source& from, int64_t stride, int64_t l, int64_t k, int64_t w, float* to,
                    float* wide) const {
    if (plan_.pairs) return pack_.transpose_in(from.floats(), stride / 2, l, k, w, to);
    if (from.widen == nullptr) return pack_.transpose_in(from.floats(), stride, l, k, w, to);
    for (int64_t i = 0; i < l; ++i) from.widen(from.halves() + i * stride, wide + i * k, k);
    pack_.transpose_in(wide, k, l, k, w, to);
  }

  // The summand at which a block of k begins.
  int64_t first_summand(const KBlock& k) const { return plan_.pairs ? 2 * k.first : k.first; }

  void pack_a(const Operands& o, int64_t first, int64_t last, size_t block, float* packed) const {
    const MatmulDesc& d = plan_.desc;
    const KBlock& k = plan_.k_blocks[block];
    const int64_t summand = first_summand(k);
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t row = plan_.first_row(tile);
      // Slots beyond the tile's rows may hold data of the next tile: they are never read.
      const int64_t rows = std::min<int64_t>(plan_.slots, d.m - row);
      float* to = packed + (tile - first) * plan_.slots * k.size;
      if (d.transpose_a) {
        copy_in(o.a.at(summand * d.m + row), d.m, rows, k.size, plan_.slots, to);
      } else {
        transpose_in(o.a.at(row * d.k + summand), d.k, rows, k.size, plan_.slots, to, o.wide);
      }
    }
  }

  // A panel of B: `lanes` columns from `column` on, padded to `width`.
  void pack_b(const Operands& o, int64_t column, int64_t lanes, int64_t width,
              const KBlock& k) const {
    const MatmulDesc& d = plan_.desc;
    if (d.quantized_b) {
      pack_quantized(o, column, lanes, width, k);
    } else if (d.transpose_b) {
      transpose_in(o.b.at(column * d.k + first_summand(k)), d.k, lanes, k.size, width, o.packed_b,
                   o.wide);
    } else {
      copy_in(o.b.at(first_summand(k) * d.n + column), d.n, lanes, k.size, width, o.packed_b);
    }
  }

  void pack_quantized(const Operands& o, int64_t column, int64_t lanes, int64_t width,
                      const KBlock& k) const {
    const QuantizedRows b{static_cast<const uint8_t*>(o.b.data), o.scales_b, row_b_.bytes(),
                          row_b_.floats(), row_b_.number_bytes()};
    if (plan_.desc.transpose_b) {
      for (int64_t j = 0; j < lanes; ++j)
        widen_b_(b.row(column + j), k.first, k.size, o.wide + j * k.size);
      pack_.transpose_in(o.wide, k.size, lanes, k.size, width, o.packed_b);
      return;
    }
    for (int64_t i = 0; i < k.size; ++i) {
      float* to = o.packed_b + i * width;
      widen_b_(b.row(k.first + i), column, lanes, to);
      std::fill(to + lanes, to + width, 0.0f);
    }
  }

  // A panel of C and B.
  struct Panel {
    bool last;
    int64_t column, lanes, width;  // width: lanes in whole vectors
  };
  Panel panel_of(int64_t index) const {
    const bool last = index + 1 == plan_.panels;
    const int64_t lanes = last ? plan_.last_panel_lanes : plan_.panel_lanes;
    const int64_t vector = lanes_of(plan_.isa);
    return {last, index * plan_.panel_lanes, lanes, (lanes + vector - 1) / vector * vector};
  }

  // What the functions of a block of rows have in common.
  PanelArgs call_of(const Operands& o, int64_t first_tile, int64_t last_tile) const {
    PanelArgs call;
    call.p = o.packed_a;
    call.q = o.packed_b;
    call.tiles_hi = std::min(last_tile, plan_.tiles_hi) - std::min(first_tile, plan_.tiles_hi);
    call.tiles_lo = last_tile - first_tile - call.tiles_hi;
    return call;
  }

  // The panel of B that is packed next, to be prefetched.
  const float* next_panel(const Operands& o, const Panel& panel, const KBlock& k) const {
    const int64_t next = panel.column + plan_.panel_lanes, summand = first_summand(k);
    const MatmulDesc& d = plan_.desc;
    return o.b.at(d.transpose_b ? next * d.k + summand : summand * d.n + next).floats();
  }

  void run_block(const Operands& o, const BlockedRange& range, int64_t first_tile,
                 int64_t last_tile, size_t block) const {
    const MatmulDesc& d = plan_.desc;
    const KBlock& k = plan_.k_blocks[block];
    const int64_t row = plan_.first_row(first_tile);
    PanelArgs call = call_of(o, first_tile, last_tile);
    for (int64_t index = range.first_panel; index < range.last_panel; ++index) {
      const Panel panel = panel_of(index);
      pack_b(o, panel.column, panel.lanes, panel.width, k);
      if (!panel.last && plan_.b_bytes() > 0) call.prefetch = next_panel(o, panel, k);
      call.d = o.c + row * d.n + panel.column;
      if (d.bias) call.bias = o.bias + panel.column;
      if (d.squares)
        call.squares = o.squares + (index * plan_.tiles() + first_tile) * lanes_of(plan_.isa);
      code_.function(block * 2 + (panel.last ? 1 : 0))(&call);
      if (activate_ != nullptr && block + 1 == plan_.k_blocks.size()) {
        const int64_t rows = plan_.first_row(last_tile) - row;
        for (int64_t i = 0; i < rows; ++i) activate_(call.d + i * d.n, panel.lanes);
      }
    }
  }

  // A C of bf16: each panel is made as f32, of all of k, and rounded once.
  void run_whole(const Operands& o, const BlockedRange& range, int64_t first_tile,
                 int64_t last_tile) const {
    const MatmulDesc& d = plan_.desc;
    const int64_t row = plan_.first_row(first_tile), rows = plan_.first_row(last_tile) - row;
    const int64_t slots = (last_tile - first_tile) * plan_.slots;
    for (size_t block = 0; block < plan_.k_blocks.size(); ++block)
      pack_a(o, first_tile, last_tile, block, o.packed_a + slots * plan_.k_blocks[block].first);
    PanelArgs call = call_of(o, first_tile, last_tile);
    call.d = o.wide;
    for (int64_t index = range.first_panel; index < range.last_panel; ++index) {
      const Panel panel = panel_of(index);
      uint16_t* c = reinterpret_cast<uint16_t*>(o.c) + row * d.n + panel.column;
      if (d.accumulate)
        for (int64_t i = 0; i < rows; ++i)
          pack_.widen(c + i * d.n, o.wide + i * plan_.panel_lanes, panel.lanes);
      if (d.bias) call.bias = o.bias + panel.column;
      for (size_t block = 0; block < plan_.k_blocks.size(); ++block) {
        const KBlock& k = plan_.k_blocks[block];
        pack_b(o, panel.column, panel.lanes, panel.width, k);
        if (!panel.last) call.prefetch = next_panel(o, panel, k);
        call.p = o.packed_a + slots * k.first;
        code_.function(block * 2 + (panel.last ? 1 : 0))(&call);
      }
      for (int64_t i = 0; i < rows; ++i) {
        float* from = o.wide + i * plan_.panel_lanes;
        if (activate_ != nullptr) activate_(from, panel.lanes);
        pack_.narrow(from, c + i * d.n, panel.lanes);
      }
    }
  }

  const BlockedPlan plan_;
  const JitCode code_;
  const PackFunctions pack_;
  const kit::QuantRow row_b_;
  const WidenQuantized widen_b_;
  const ActivationFunction activate_;
};

}  // namespace

Capability blocked_capability(const MatmulDesc& desc, Isa isa) {
  Capability capability;
  capability.refusal = unsupported(isa);
  if (!capability.refusal.empty()) return capability;
  const BlockedPlan plan = plan_blocked(desc, isa);
  capability.refusal = plan.refusal;
  if (capability.refusal.empty()) capability.workspace_bytes = plan.workspace_bytes();
  return capability;
}

std::unique_ptr<MatmulKernel> make_blocked(const MatmulDesc& desc, Isa isa) {
  return std::make_unique<BlockedMatmul>(plan_blocked(desc, isa));
}

Capability blocked_bf16_capability(const MatmulDesc& desc) {
  Capability capability;
  if (!has_pair_products()) {
    capability.refusal = "the processor has no AVX512_BF16";
  } else if (desc.half_a != Half::bf16 || desc.half_b != Half::bf16 || desc.half_c == Half::f16) {
    capability.refusal = "takes two operands of bf16";
  } else if (desc.half_c != Half::none && desc.squares) {
    capability.refusal = "sums of squares need a result of f32";
  } else {
    const BlockedPlan plan = plan_blocked(desc, Isa::avx512, true);
    capability.refusal = plan.refusal;
    if (plan.refusal.empty()) capability.workspace_bytes = plan.workspace_bytes();
  }
  return capability;
}

std::unique_ptr<MatmulKernel> make_blocked_bf16(const MatmulDesc& desc) {
  return std::make_unique<BlockedMatmul>(plan_blocked(desc, Isa::avx512, true));
}

}  // namespace plait::cpu

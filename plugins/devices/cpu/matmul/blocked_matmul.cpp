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

class BlockedMatmul final : public MatmulKernel {
 public:
  explicit BlockedMatmul(BlockedPlan plan)
      : plan_(std::move(plan)),
        code_(all_specs(plan_)),
        pack_(pack_functions(plan_.isa)),
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

  // An operand of f32, or of 16 bits.
  struct Source {
    const void* data;
    void (*widen)(const uint16_t*, float*, int64_t);
    Source at(int64_t element) const {
      return {static_cast<const char*>(data) + element * (widen ? 2 : 4), widen};
    }
    const float* floats() const { return static_cast<const float*>(data); }
    const uint16_t* halves() const { return static_cast<const uint16_t*>(data); }
  };

  struct Operands {
    Source a, b;
    const float* bias;
    float* c;
    float* squares;  // (panels, tiles, lanes)
    float *packed_a, *packed_b, *wide;
  };

  void run_range(const MatmulArgs& args, const BlockedRange& range, size_t thread) const {
    float* workspace = static_cast<float*>(args.workspace) + thread * plan_.thread_floats();
    const MatmulDesc& d = plan_.desc;
    for (int64_t item = range.first_item; item < range.last_item; ++item) {
      const Operands operands = {
          Source{args.a, d.widen_a}.at(item * d.batch_stride_a),
          Source{args.b, d.widen_b}.at(item * d.batch_stride_b),
          args.bias,
          args.c + item * d.batch_stride_c,
          d.squares ? squares(args) + item * plan_.panels * plan_.tiles() * lanes_of(plan_.isa)
                    : nullptr,
          workspace,
          workspace + plan_.a_floats(),
          workspace + plan_.a_floats() + plan_.b_floats()};
      for (int64_t tile = range.first_tile; tile < range.last_tile; tile += plan_.tiles_per_block) {
        const int64_t last = std::min(tile + plan_.tiles_per_block, range.last_tile);
        for (size_t block = 0; block < plan_.k_blocks.size(); ++block) {
          pack_a(operands, tile, last, block);
          run_block(operands, range, tile, last, block);
        }
      }
    }
  }

  // As PackFunctions::copy_in: a panel (k, w) of a source (k, l).
  void copy_in(const Source& from, int64_t stride, int64_t l, int64_t k, int64_t w,
               float* to) const {
    if (from.widen == nullptr) return pack_.copy_in(from.floats(), stride, l, k, w, to);
    for (int64_t i = 0; i < k; ++i) {
      from.widen(from.halves() + i * stride, to + i * w, l);
      std::fill(to + i * w + l, to + (i + 1) * w, 0.0f);
    }
  }
  // As PackFunctions::transpose_in: a panel (k, w) of a source (l, k).
  void transpose_in(const Source& from, int64_t stride, int64_t l, int64_t k, int64_t w, float* to,
                    float* wide) const {
    if (from.widen == nullptr) return pack_.transpose_in(from.floats(), stride, l, k, w, to);
    for (int64_t i = 0; i < l; ++i) from.widen(from.halves() + i * stride, wide + i * k, k);
    pack_.transpose_in(wide, k, l, k, w, to);
  }

  void pack_a(const Operands& o, int64_t first, int64_t last, size_t block) const {
    const MatmulDesc& d = plan_.desc;
    const KBlock& k = plan_.k_blocks[block];
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t row = plan_.first_row(tile);
      // Slots beyond the tile's rows may hold data of the next tile: they are never read.
      const int64_t rows = std::min<int64_t>(plan_.slots, d.m - row);
      float* to = o.packed_a + (tile - first) * plan_.slots * k.size;
      if (d.transpose_a) {
        copy_in(o.a.at(k.first * d.m + row), d.m, rows, k.size, plan_.slots, to);
      } else {
        transpose_in(o.a.at(row * d.k + k.first), d.k, rows, k.size, plan_.slots, to, o.wide);
      }
    }
  }

  void run_block(const Operands& o, const BlockedRange& range, int64_t first_tile,
                 int64_t last_tile, size_t block) const {
    const MatmulDesc& d = plan_.desc;
    const KBlock& k = plan_.k_blocks[block];
    const int64_t row = plan_.first_row(first_tile);
    PanelArgs call;
    call.p = o.packed_a;
    call.q = o.packed_b;
    call.tiles_hi = std::min(last_tile, plan_.tiles_hi) - std::min(first_tile, plan_.tiles_hi);
    call.tiles_lo = last_tile - first_tile - call.tiles_hi;
    for (int64_t panel = range.first_panel; panel < range.last_panel; ++panel) {
      const bool last = panel + 1 == plan_.panels;
      const int64_t lanes = last ? plan_.last_panel_lanes : plan_.panel_lanes;
      const int64_t vector = lanes_of(plan_.isa);
      const int64_t width = (lanes + vector - 1) / vector * vector;
      const int64_t column = panel * plan_.panel_lanes;
      const Source from = o.b.at(d.transpose_b ? column * d.k + k.first : k.first * d.n + column);
      if (d.transpose_b) {
        transpose_in(from, d.k, lanes, k.size, width, o.packed_b, o.wide);
      } else {
        copy_in(from, d.n, lanes, k.size, width, o.packed_b);
      }
      if (!last && from.widen == nullptr)
        call.prefetch =
            from.floats() + (d.transpose_b ? plan_.panel_lanes * d.k : plan_.panel_lanes);
      call.d = o.c + row * d.n + column;
      if (d.bias) call.bias = o.bias + column;
      if (d.squares) call.squares = o.squares + (panel * plan_.tiles() + first_tile) * vector;
      code_.function(block * 2 + (last ? 1 : 0))(&call);
      if (activate_ != nullptr && block + 1 == plan_.k_blocks.size()) {
        const int64_t rows = plan_.first_row(last_tile) - row;
        for (int64_t i = 0; i < rows; ++i) activate_(call.d + i * d.n, lanes);
      }
    }
  }

  const BlockedPlan plan_;
  const JitCode code_;
  const PackFunctions pack_;
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

}  // namespace plait::cpu

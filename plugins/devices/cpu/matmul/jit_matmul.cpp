// The generated kernels as a MatmulKernel: packs, calls the panel functions, transposes transposed
// results back.

#include <algorithm>

#include "plugins/devices/cpu/matmul/activation.hpp"
#include "plugins/devices/cpu/matmul/candidates.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/jit_kernel.hpp"
#include "plugins/devices/cpu/matmul/pack.hpp"
#include "plugins/devices/cpu/matmul/plain.hpp"
#include "plugins/devices/cpu/matmul/plan.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

// The spec for (kind of panel, block of k) is at [kind * blocks + block].
std::vector<KernelSpec> all_specs(const JitPlan& plan) {
  const size_t blocks = plan.k_blocks.size();
  std::vector<KernelSpec> specs;
  for (const PanelKind& kind : plan.kinds) {
    for (size_t block = 0; block < blocks; ++block) {
      specs.push_back(kernel_spec(plan, kind.first, block));
    }
  }
  return specs;
}

class JitMatmul final : public MatmulKernel {
 public:
  explicit JitMatmul(JitPlan plan)
      : plan_(std::move(plan)),
        code_(all_specs(plan_)),
        pack_(pack_functions(plan_.isa)),
        activate_(plan_.desc.activation == Activation::relu
                      ? nullptr
                      : activation_function(plan_.desc.activation, plan_.isa)) {}

  void run(const MatmulArgs& args) const override {
    if (plan_.threads == 1) {
      run_tasks(args, 0, tasks(), 0);
    } else {
      run_parallel(args);
    }
    if (plan_.desc.squares) {
      *args.squares = plain_sum(squares(args), static_cast<int64_t>(plan_.squares_floats));
    }
  }

  std::string_view name() const override {
    return plan_.isa == Isa::avx512 ? "jit_avx512" : "jit_avx2";
  }
  size_t workspace_bytes() const override { return plan_.workspace_bytes(); }

 private:
  void run_parallel(const MatmulArgs& args) const {
    // The pool may grant fewer threads than requested; every task has its own part of C in either
    // case.
    on_pool(plan_.threads, [&](int64_t thread, int64_t granted) {
      run_tasks(args, tasks() * thread / granted, tasks() * (thread + 1) / granted,
                static_cast<size_t>(thread));
    });
  }

  // A part of a panel: its tiles and the start of its rows.
  struct PanelPart {
    int64_t first_row;
    int64_t rows;
    int64_t first_tile;
    int64_t tiles_hi;
    int64_t tiles_lo;
  };

  // (batch, tiles of all panels, lanes), after the per-thread parts of the workspace.
  float* squares(const MatmulArgs& args) const {
    return static_cast<float*>(args.workspace) +
           static_cast<size_t>(plan_.threads) * (plan_.pack_floats + plan_.scratch_floats);
  }

  int64_t tasks() const { return plan_.desc.batch * plan_.n_panels() * plan_.row_splits; }

  void run_tasks(const MatmulArgs& args, int64_t first, int64_t last, size_t thread) const {
    float* pack = static_cast<float*>(args.workspace);
    if (pack != nullptr) pack += thread * (plan_.pack_floats + plan_.scratch_floats);
    const int64_t panels = plan_.n_panels();
    for (int64_t task = first; task < last; ++task) {
      const int64_t split = task % plan_.row_splits;
      // NOLINTNEXTLINE(*.DivideZero): without a panel there is no task.
      const Panel panel = plan_.panel(task / plan_.row_splits % panels);
      const int64_t item = task / plan_.row_splits / panels;
      run_panel(args, item, panel, part_of(panel, split), pack);
    }
  }

  PanelPart part_of(const Panel& panel, int64_t split) const {
    const int64_t all = panel.tiles();
    const int64_t first = all * split / plan_.row_splits;
    const int64_t last = all * (split + 1) / plan_.row_splits;
    const auto row_of = [&panel](int64_t tile) {
      return std::min(tile, panel.tiles_hi) * panel.rows_hi +
             std::max<int64_t>(tile - panel.tiles_hi, 0) * panel.rows_lo;
    };
    const int64_t hi = std::min(last, panel.tiles_hi) - std::min(first, panel.tiles_hi);
    return {row_of(first), row_of(last) - row_of(first), first, hi, last - first - hi};
  }

  void run_panel(const MatmulArgs& args, int64_t item, const Panel& panel, const PanelPart& part,
                 float* pack) const {
    if (part.rows == 0) return;
    const MatmulDesc& desc = plan_.desc;
    const float* a = args.a + item * desc.batch_stride_a;
    const float* b = args.b + item * desc.batch_stride_b;
    float* c = args.c + item * desc.batch_stride_c;
    const float* p = (plan_.transposed ? b : a) + part.first_row * plan_.p_row;
    const float* q = (plan_.transposed ? a : b) + panel.first_lane * plan_.q_lane;
    const int64_t width = int64_t{panel.vecs} * lanes_of(plan_.isa);

    PanelArgs call;
    call.d = plan_.transposed ? pack + plan_.pack_floats
                              : c + part.first_row * desc.n + panel.first_lane;
    call.tiles_hi = part.tiles_hi;
    call.tiles_lo = part.tiles_lo;
    if (desc.bias) call.bias = args.bias + (plan_.transposed ? part.first_row : panel.first_lane);

    if (desc.squares) {
      call.squares =
          squares(args) +
          (item * plan_.all_tiles() + panel.first_tile + part.first_tile) * lanes_of(plan_.isa);
    }

    const size_t blocks = plan_.k_blocks.size();
    for (size_t block = 0; block < blocks; ++block) {
      const KBlock& k = plan_.k_blocks[block];
      const float* source = q + k.first * plan_.q_k;
      call.p = p + k.first * plan_.p_k;
      call.q = source;
      if (plan_.packing == Packing::transpose) {
        pack_.transpose_in(source, plan_.q_lane, panel.lanes, k.size, width, pack);
        call.q = pack;
      } else if (plan_.packing == Packing::copy) {
        pack_.copy_in(source, plan_.q_k, panel.lanes, k.size, width, pack);
        call.q = pack;
      }
      code_.function(static_cast<size_t>(panel.kind) * blocks + block)(&call);
    }
    if (plan_.transposed) {
      float* target = c + panel.first_lane * desc.n + part.first_row;
      pack_.transpose_out(call.d, part.rows, panel.lanes, width, desc.accumulate, target, desc.n);
      if (activate_ != nullptr) {
        for (int64_t i = 0; i < panel.lanes; ++i) activate_(target + i * desc.n, part.rows);
      }
    } else if (activate_ != nullptr) {
      for (int64_t i = 0; i < part.rows; ++i) activate_(call.d + i * desc.n, panel.lanes);
    }
  }

  const JitPlan plan_;
  const JitCode code_;
  const PackFunctions pack_;
  const ActivationFunction activate_;
};

}  // namespace

Capability jit_capability(const MatmulDesc& desc, Isa isa) {
  Capability capability;
  capability.refusal = unsupported(isa);
  if (!capability.refusal.empty()) return capability;
  const JitPlan plan = plan_jit(desc, isa);
  capability.refusal = plan.refusal;
  if (capability.refusal.empty()) capability.workspace_bytes = plan.workspace_bytes();
  return capability;
}

std::unique_ptr<MatmulKernel> make_jit(const MatmulDesc& desc, Isa isa) {
  return std::make_unique<JitMatmul>(plan_jit(desc, isa));
}

}  // namespace plait::cpu

#include "plugins/devices/cpu/map/jit/kernel.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "plugins/devices/cpu/map/jit/allocate.hpp"
#include "plugins/devices/cpu/map/jit/lower.hpp"
#include "plugins/devices/cpu/map/jit/machine_code.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu::jit {
namespace {

class JitKernel final : public MapKernel {
 public:
  JitKernel(Isa isa, const MapDesc& desc, const Expr& expr, Layout layout)
      : layout_(std::move(layout)), isa_(isa), threads_(useful_threads(layout_, desc.threads)) {
    std::vector<uint32_t> dtypes;
    std::vector<Level> levels;
    std::vector<OperandAccess> accesses;
    const size_t n = desc.inputs.size() + desc.outputs.size();
    for (size_t o = 0; o < n; ++o) {
      const bool is_output = o >= desc.inputs.size();
      dtypes.push_back((is_output ? desc.outputs[o - desc.inputs.size()] : desc.inputs[o]).dtype);
      accesses.push_back(access(o, dtypes.back(), is_output));
      levels.push_back(accesses.back().level);
    }
    for (const OperandAccess& a : accesses) bytes_.push_back(a.bytes);
    const Program program = allocate(lower(expr, dtypes, levels, isa), usable_registers(isa));
    code_ = std::make_unique<MachineCode>(program, accesses, isa, layout_.ndim > 1);
    function_ = code_->function();
  }

  void run(void* const* operands, void*) const override {
    if (layout_.total == 0) return;
    if (threads_ == 1) return run_part(operands, 0, 1);
    on_pool(threads_, [&](int part, int parts) { run_part(operands, part, parts); });
  }

  std::string_view name() const override {
    return isa_ == Isa::kAvx512 ? "jit_avx512" : "jit_avx2";
  }
  size_t workspace_bytes() const override { return 0; }

 private:
  OperandAccess access(size_t o, uint32_t dtype, bool is_output) const {
    const Layout::Strides& strides = layout_.strides[o];
    const int last = layout_.ndim - 1;
    OperandAccess a;
    a.bytes = static_cast<uint8_t>(dtype_bytes(dtype));
    a.is_f16 = dtype == PLAIT_F16;
    a.is_output = is_output;
    const int64_t row_stride = last > 0 ? strides[last - 1] : 0;
    a.row_bytes = row_stride * a.bytes;
    if (!is_output && strides[last] == 0) a.level = row_stride ? Level::kRow : Level::kCall;
    return a;
  }

  // A few long rows are split across threads; many rows are distributed whole.
  void run_part(void* const* operands, int part, int parts) const {
    const int64_t rows = layout_.rows();
    constexpr int64_t kGrain = 64;  // elements: a cache line of the smallest type
    const bool cut = rows < parts;
    const WorkRange r = cut ? WorkRange{0, rows} : split(rows, 1, part, parts);
    const WorkRange c =
        cut ? split(layout_.row(), kGrain, part, parts) : WorkRange{0, layout_.row()};
    if (r.begin >= r.end || c.begin >= c.end) return;

    // The code processes the rows of one block; blocks differ in the outer dims.
    const int64_t block = layout_.ndim > 1 ? layout_.dims[layout_.ndim - 2] : 1;
    for (int64_t row = r.begin; row < r.end;) {
      CallArgs args;
      args.n = c.end - c.begin;
      args.rows = std::min(block - row % block, r.end - row);
      for (size_t o = 0; o < bytes_.size(); ++o) {
        const int64_t column = layout_.strides[o][layout_.ndim - 1] ? c.begin : 0;
        const int64_t offset = (layout_.row_offset(o, row) + column) * bytes_[o];
        // Computed as an integer: the pointer of an input that the expression does not read may be
        // null.
        args.operands[o] =
            reinterpret_cast<void*>(reinterpret_cast<intptr_t>(operands[o]) + offset);
      }
      const int64_t done = args.rows;  // the code decrements args.rows
      function_(&args);
      row += done;
    }
  }

  Layout layout_;
  Isa isa_;
  int threads_;
  std::vector<int64_t> bytes_;  // per element, by operand
  std::unique_ptr<MachineCode> code_;
  MachineCode::Function function_ = nullptr;
};

}  // namespace

std::string refusal(Isa isa, const MapDesc& desc) {
  constexpr uint32_t kMaxInstrs = 256;  // frame indices have 16 bits
  const std::string name = isa == Isa::kAvx512 ? "jit_avx512" : "jit_avx2";
  if (!machine_has(isa))
    return name + " needs " +
           (isa == Isa::kAvx512 ? "AVX-512 F, DQ, BW and VL" : "AVX2, FMA and F16C") +
           ", which this machine or its system lacks";
  if (desc.map->n_instrs > kMaxInstrs)
    return name + " takes " + std::to_string(kMaxInstrs) + " instructions, found " +
           std::to_string(desc.map->n_instrs);
  size_t narrow = 0;
  for (const auto& side : {desc.inputs, desc.outputs}) {
    for (const MapTensor& t : side) {
      if (dtype_bytes(t.dtype) == 8)
        return name + " computes in f32, an operand has type " +
               (t.dtype == PLAIT_F64 ? "f64" : "i64");
      narrow += dtype_bytes(t.dtype) < 4;
    }
  }
  const size_t n = desc.inputs.size() + desc.outputs.size();
  if (n > kMaxOperands)
    return name + " takes " + std::to_string(kMaxOperands) + " operands, found " +
           std::to_string(n);
  if (isa == Isa::kAvx2 && narrow > kPointerRegisters)
    return name + " takes " + std::to_string(kPointerRegisters) +
           " operands of 1 or 2 bytes, found " + std::to_string(narrow);
  return {};
}

std::unique_ptr<MapKernel> make_kernel(Isa isa, const MapDesc& desc, const Expr& expr,
                                       Layout layout) {
  return std::make_unique<JitKernel>(isa, desc, expr, std::move(layout));
}

}  // namespace plait::cpu::jit

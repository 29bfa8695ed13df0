#include "plugins/devices/cpu/map/interp/kernel.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "plugins/devices/cpu/map/interp/convert.hpp"
#include "plugins/devices/cpu/map/interp/plan.hpp"
#include "plugins/devices/cpu/map/interp/tile_ops.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu::interp {
namespace {

constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// T: the type of the arithmetic, float or double.
template <class T>
class Interpreter final : public MapKernel {
 public:
  Interpreter(const MapDesc& desc, const Expr& expr, Layout layout)
      : layout_(std::move(layout)),
        threads_(useful_threads(layout_, desc.threads)),
        n_inputs_(expr.n_inputs),
        outputs_(expr.outputs),
        ops_(tile_ops<T>()) {
    for (const MapTensor& t : desc.inputs) dtypes_.push_back(t.dtype);
    for (const MapTensor& t : desc.outputs) dtypes_.push_back(t.dtype);
    for (uint32_t d : dtypes_) bytes_.push_back(static_cast<int64_t>(dtype_bytes(d)));
    plan_ = plan_tiles(expr, dtypes_, layout_, sizeof(T) == 4 ? PLAIT_F32 : PLAIT_F64);
    // All buffers together should fit in the first-level cache.
    const size_t fits = 24576 / sizeof(T) / std::max<size_t>(1, plan_.n_buffers);
    tile_ = std::clamp<size_t>(fits / 64 * 64, 128, 512);
    pointer_bytes_ = round_up(plan_.homes.size() * sizeof(T*), 64);
    thread_bytes_ = pointer_bytes_ + plan_.n_buffers * tile_ * sizeof(T);
  }

  void run(void* const* operands, void* workspace) const override {
    if (layout_.total == 0) return;
    if (threads_ == 1) return run_part(operands, workspace, 0, 1);
    on_pool(threads_, [&](int part, int parts) { run_part(operands, workspace, part, parts); });
  }

  std::string_view name() const override { return "interpreter"; }
  size_t workspace_bytes() const override { return threads_ * thread_bytes_; }

 private:
  void run_part(void* const* operands, void* workspace, int part, int parts) const {
    const WorkRange range = split(layout_.total, 64, part, parts);
    if (range.begin >= range.end) return;
    char* mine = static_cast<char*>(workspace) + static_cast<size_t>(part) * thread_bytes_;
    T** at = reinterpret_cast<T**>(mine);  // (registers): pointer to the elements of each
    T* buffers = reinterpret_cast<T*>(mine + pointer_bytes_);
    for (size_t r = 0; r < plan_.homes.size(); ++r)
      at[r] = buffers + (plan_.homes[r].kind == Home::kOperand ? 0 : plan_.homes[r].index * tile_);
    const size_t widest = static_cast<size_t>(std::min<int64_t>(tile_, range.end - range.begin));
    fill_uniform(operands, at, widest);
    for (int64_t begin = range.begin; begin < range.end; begin += static_cast<int64_t>(tile_)) {
      const size_t n = static_cast<size_t>(std::min<int64_t>(tile_, range.end - begin));
      run_tile(operands, at, begin, n);
    }
  }

  void fill_uniform(void* const* operands, T** at, size_t n) const {
    for (uint32_t r : plan_.uniform_inputs) {
      load_elements<T>(dtypes_[r], operands[r], at[r], 1);
      std::fill_n(at[r], n, at[r][0]);
    }
    for (const Instruction& in : plan_.once) execute(in, at, n);
  }

  void execute(const Instruction& in, T** at, size_t n) const {
    if (in.what.op == PLAIT_MAP_CONST) {
      std::fill_n(at[in.to], n, static_cast<T>(in.what.value));
      return;
    }
    ops_[in.what.op](at[in.what.a], at[in.what.b], at[in.what.c], at[in.to], n);
  }

  // Computes elements [begin, begin + n) of the outputs.
  void run_tile(void* const* operands, T** at, int64_t begin, size_t n) const {
    for (size_t r = 0; r < plan_.homes.size(); ++r)
      if (plan_.homes[r].kind == Home::kOperand)
        at[r] = static_cast<T*>(operands[plan_.homes[r].index]) + begin;
    for (uint32_t r : plan_.tile_inputs) gather(r, operands[r], begin, n, at[r]);
    for (const Instruction& in : plan_.every_tile) execute(in, at, n);
    for (uint32_t o : plan_.stores) {
      const uint32_t operand = n_inputs_ + o;
      char* to = static_cast<char*>(operands[operand]) + begin * bytes_[operand];
      const T* from = at[outputs_[o]];
      if (static_cast<const void*>(from) != to) store_elements<T>(dtypes_[operand], from, to, n);
    }
  }

  // The elements of input `r` that belong to outputs [begin, begin + n), as T.
  void gather(uint32_t r, const void* data, int64_t begin, size_t n, T* dst) const {
    const char* src = static_cast<const char*>(data);
    const int64_t row_length = layout_.row();
    const bool repeats = layout_.strides[r][layout_.ndim - 1] == 0;
    int64_t row = begin / row_length, column = begin % row_length;
    while (n > 0) {
      const size_t count = std::min<size_t>(n, static_cast<size_t>(row_length - column));
      const int64_t offset = layout_.row_offset(r, row) + (repeats ? 0 : column);
      load_elements<T>(dtypes_[r], src + offset * bytes_[r], dst, repeats ? 1 : count);
      if (repeats) std::fill_n(dst, count, dst[0]);
      dst += count;
      n -= count;
      column = 0;
      ++row;
    }
  }

  Layout layout_;
  int threads_;
  uint32_t n_inputs_;
  std::vector<uint32_t> outputs_;
  const TileOp<T>* ops_;
  std::vector<uint32_t> dtypes_;
  std::vector<int64_t> bytes_;  // per element, by operand
  TilePlan plan_;
  size_t tile_ = 0, pointer_bytes_ = 0, thread_bytes_ = 0;
};

}  // namespace

std::unique_ptr<MapKernel> make_kernel(const MapDesc& desc, const Expr& expr, Layout layout) {
  bool wide = false;
  for (const auto& side : {desc.inputs, desc.outputs})
    for (const MapTensor& t : side) wide |= dtype_bytes(t.dtype) == 8;
  if (wide) return std::make_unique<Interpreter<double>>(desc, expr, std::move(layout));
  return std::make_unique<Interpreter<float>>(desc, expr, std::move(layout));
}

}  // namespace plait::cpu::interp

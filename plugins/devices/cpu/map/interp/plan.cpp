#include "plugins/devices/cpu/map/interp/plan.hpp"

#include <algorithm>

namespace plait::cpu::interp {
namespace {

class Planner {
 public:
  Planner(const Expr& expr, std::span<const uint32_t> dtypes, const Layout& layout, uint32_t native)
      : expr_(expr), dtypes_(dtypes), layout_(layout), native_(native) {
    plan_.homes.resize(expr.n_registers());
    last_use_.assign(expr.n_registers(), -1);
  }

  TilePlan run() {
    find_last_uses();
    place_inputs();
    choose_direct_outputs();
    for (size_t i = 0; i < expr_.instrs.size(); ++i) place_instruction(static_cast<int>(i));
    for (size_t o = 0; o < expr_.outputs.size(); ++o)
      if (!is_written_directly(o)) plan_.stores.push_back(static_cast<uint32_t>(o));
    return std::move(plan_);
  }

 private:
  static constexpr int kToTheEnd = 1 << 30;

  void find_last_uses() {
    for (size_t i = 0; i < expr_.instrs.size(); ++i) {
      for (const uint32_t a : Arguments(expr_.instrs[i])) last_use_[a] = static_cast<int>(i);
    }
    for (uint32_t r : expr_.outputs) last_use_[r] = kToTheEnd;
  }

  uint32_t new_buffer() { return plan_.n_buffers++; }

  void place_inputs() {
    const auto& out = layout_.strides[expr_.n_inputs];
    for (uint32_t r = 0; r < expr_.n_inputs; ++r) {
      if (last_use_[r] < 0) continue;
      const auto& strides = layout_.strides[r];
      const bool dense = std::equal(strides.begin(), strides.begin() + layout_.ndim, out.begin());
      const bool scalar = std::all_of(strides.begin(), strides.begin() + layout_.ndim,
                                      [](int64_t s) { return s == 0; });
      if (scalar) {
        plan_.homes[r] = {Home::kUniform, new_buffer()};
        plan_.uniform_inputs.push_back(r);
      } else if (dense && dtypes_[r] == native_) {
        plan_.homes[r] = {Home::kOperand, r};
        last_direct_read_ = std::max(last_direct_read_, last_use_[r]);
      } else {
        plan_.homes[r] = {Home::kTile, new_buffer()};
        plan_.tile_inputs.push_back(r);
      }
    }
  }

  // An instruction may write directly to an output only if no later instruction reads an input in
  // place: the output may alias that input.
  void choose_direct_outputs() {
    direct_output_.assign(expr_.n_registers(), -1);
    for (size_t o = 0; o < expr_.outputs.size(); ++o) {
      const uint32_t r = expr_.outputs[o];
      const uint32_t operand = expr_.n_inputs + static_cast<uint32_t>(o);
      if (r < expr_.n_inputs || direct_output_[r] >= 0 || dtypes_[operand] != native_) continue;
      if (static_cast<int>(r - expr_.n_inputs) >= last_direct_read_)
        direct_output_[r] = static_cast<int>(operand);
    }
  }

  bool is_written_directly(size_t o) const {
    const Home& home = plan_.homes[expr_.outputs[o]];
    return home.kind == Home::kOperand && home.index == expr_.n_inputs + o;
  }

  void place_instruction(int i) {
    const plait_map_instr& in = expr_.instrs[i];
    const Arguments arguments(in);
    const uint32_t r = expr_.n_inputs + static_cast<uint32_t>(i);
    const bool uniform = std::all_of(arguments.begin(), arguments.end(), [&](uint32_t a) {
      return plan_.homes[a].kind == Home::kUniform;
    });
    if (uniform) {
      plan_.homes[r] = {Home::kUniform, new_buffer()};
      plan_.once.push_back({in, r});
      return;
    }
    // Arguments whose last use is here release their buffers first: an operation may work in place.
    for (const uint32_t* a = arguments.begin(); a != arguments.end(); ++a) {
      const Home& home = plan_.homes[*a];
      const bool seen = std::find(arguments.begin(), a, *a) != a;
      if (home.kind == Home::kTile && last_use_[*a] == i && *a >= expr_.n_inputs && !seen)
        free_.push_back(home.index);
    }
    if (direct_output_[r] >= 0) {
      plan_.homes[r] = {Home::kOperand, static_cast<uint32_t>(direct_output_[r])};
    } else if (!free_.empty()) {
      plan_.homes[r] = {Home::kTile, free_.back()};
      free_.pop_back();
    } else {
      plan_.homes[r] = {Home::kTile, new_buffer()};
    }
    plan_.every_tile.push_back({in, r});
  }

  const Expr& expr_;
  std::span<const uint32_t> dtypes_;
  const Layout& layout_;
  const uint32_t native_;
  TilePlan plan_;
  std::vector<int> last_use_;       // index of the instruction, by register
  std::vector<int> direct_output_;  // operand, by register
  std::vector<uint32_t> free_;
  int last_direct_read_ = -1;
};

}  // namespace

TilePlan plan_tiles(const Expr& expr, std::span<const uint32_t> dtypes, const Layout& layout,
                    uint32_t native) {
  return Planner(expr, dtypes, layout, native).run();
}

}  // namespace plait::cpu::interp

// map: evaluates the expression element by element, in double. All inputs of an element are read
// before an output is written, so an output may alias an input.
#include <array>

#include "kit/ops/map.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainMap {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    check_map(d);
    choice.workspace = Scratch::bytes(int64_t{d.map->n_inputs} + d.map->n_instrs);
    why = "plain loops in double";
    return true;
  }
  PlainMap(plait_device*, const plait_op_desc& d)
      : types_(operand_types(d)),
        instrs_(d.map->instrs, d.map->instrs + d.map->n_instrs),
        outputs_(d.map->outputs, d.map->outputs + d.map->n_outputs),
        inputs_(d.n_inputs),
        y_(d.outputs[0]),
        count_(elements(y_)) {
    for (uint32_t i = 0; i < d.n_inputs; ++i) strides_.push_back(walk(d.inputs[i]));
  }

  void run(plait_queue*, void* const* operands, void* workspace) const {
    const Operands op(types_, operands);
    auto* r = static_cast<double*>(workspace);
    for (int64_t e = 0; e < count_; ++e) {
      for (size_t i = 0; i < inputs_; ++i) r[i] = op.get(i, offset(strides_[i], e));
      for (size_t i = 0; i < instrs_.size(); ++i) r[inputs_ + i] = evaluate_map(instrs_[i], r);
      for (size_t i = 0; i < outputs_.size(); ++i) op.set(inputs_ + i, e, r[outputs_[i]]);
    }
  }

 private:
  using Strides = std::array<int64_t, PLAIT_MAX_NDIM>;
  // The step of x along each dim of y: 0 where x repeats.
  Strides walk(const plait_shape& x) const {
    Strides s{};
    int64_t step = 1;
    for (uint32_t j = x.ndim; j-- > 0; step *= x.dims[j])
      s[y_.ndim - x.ndim + j] = x.dims[j] == 1 ? 0 : step;
    return s;
  }
  int64_t offset(const Strides& s, int64_t e) const {
    int64_t at = 0;
    for (uint32_t j = y_.ndim; j-- > 0; e /= y_.dims[j]) at += e % y_.dims[j] * s[j];
    return at;
  }

  std::vector<uint32_t> types_;
  std::vector<plait_map_instr> instrs_;
  std::vector<uint32_t> outputs_;
  size_t inputs_;
  plait_shape y_;
  int64_t count_;
  std::vector<Strides> strides_;
};

}  // namespace

void add_plain_map(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainMap>("plain", "map", device, 0));
}

}  // namespace plait::support

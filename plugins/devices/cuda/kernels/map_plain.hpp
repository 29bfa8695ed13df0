// map on the device as an interpreter: it takes every call, needs no compiler and is slow. The
// kernel that compiles maps uses it, too, where the compiler is missing.
#pragma once

#include <algorithm>
#include <string>

#include "kit/ops/map.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/map_plain_args.hpp"

namespace plait::cuda {

class PlainMap {
 public:
  static constexpr unsigned kBlock = 256;

  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::check_map(d);
    choice.workspace = 0;
    const uint32_t operands = d.n_inputs + d.n_outputs, instrs = d.map->n_instrs;
    const bool fits = operands <= kMapPlainOperands && instrs <= kMapPlainInstrs;
    why = fits ? "an interpreter in double, a thread for each element"
               : "takes " + std::to_string(kMapPlainOperands) + " operands and " +
                     std::to_string(kMapPlainInstrs) + " instructions at most, found " +
                     std::to_string(operands) + " and " + std::to_string(instrs);
    return fits;
  }

  PlainMap(plait_device* device, const plait_op_desc& d)
      : function_(device, "map_plain", "map_plain") {
    args_.count = kit::elements(d.outputs[0]);
    args_.n_inputs = static_cast<int32_t>(d.n_inputs);
    args_.n_outputs = static_cast<int32_t>(d.n_outputs);
    args_.n_instrs = static_cast<int32_t>(d.map->n_instrs);
    for (uint32_t i = 0; i < d.n_inputs + d.n_outputs; ++i)
      args_.operands[i].dtype =
          i < d.n_inputs ? d.inputs[i].dtype : d.outputs[i - d.n_inputs].dtype;
    for (uint32_t i = 0; i < d.n_outputs; ++i)
      args_.outputs[i] = static_cast<uint8_t>(d.map->outputs[i]);
    for (uint32_t i = 0; i < d.map->n_instrs; ++i) copy_instr(d.map->instrs[i], i);
    add_dims(d);
  }

  void run(plait_queue* queue, void* const* operands, void*) const {
    MapPlainArgs args = args_;
    for (int i = 0; i < args.n_inputs + args.n_outputs; ++i) args.operands[i].data = operands[i];
    function_.launch(queue, {blocks_for(args.count, kBlock)}, kBlock, args);
  }

 private:
  // Registers that the instruction does not read become 0, which always exists.
  void copy_instr(const plait_map_instr& in, uint32_t i) {
    const int arity = kit::map_arity(in.op);
    args_.instrs[i] = {static_cast<uint8_t>(in.op), static_cast<uint8_t>(arity > 0 ? in.a : 0),
                       static_cast<uint8_t>(arity > 1 ? in.b : 0),
                       static_cast<uint8_t>(arity > 2 ? in.c : 0)};
    args_.values[i] = in.value;
  }

  // The dims of y from the last one on; neighbours that every input walks as one are merged.
  void add_dims(const plait_op_desc& d) {
    const plait_shape& y = d.outputs[0];
    int64_t steps[kMapPlainOperands];
    std::fill_n(steps, kMapPlainOperands, 1);
    for (uint32_t j = y.ndim; j-- > 0;) {
      if (y.dims[j] == 1) continue;
      int64_t strides[kMapPlainOperands] = {};
      bool merge = args_.n_dims > 0;
      const int last = args_.n_dims - 1;
      for (uint32_t i = 0; i < d.n_inputs; ++i) {
        const plait_shape& x = d.inputs[i];
        const uint32_t missing = y.ndim - x.ndim;
        const int64_t extent = j >= missing ? x.dims[j - missing] : 1;
        strides[i] = extent == 1 ? 0 : steps[i];
        steps[i] *= extent;
        merge = merge && strides[i] == args_.strides[i][last] * args_.dims[last];
      }
      const int at = merge ? last : args_.n_dims++;
      args_.dims[at] = merge ? args_.dims[at] * y.dims[j] : y.dims[j];
      if (!merge)
        for (uint32_t i = 0; i < d.n_inputs; ++i) args_.strides[i][at] = strides[i];
    }
  }

  Function function_;
  MapPlainArgs args_{};
};

}  // namespace plait::cuda

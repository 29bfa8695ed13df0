// group_rows, ungroup_rows and its gradient on the device, of every type.
#include <algorithm>
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/grouped.hpp"
#include "plugins/devices/cuda/kernels/grouped_rows_args.hpp"
#include "plugins/devices/cuda/kernels/row_sort.hpp"
#include "plugins/devices/cuda/kernels/row_tiles.hpp"

namespace plait::cuda {
namespace {

// Of shapes whose data comes with a call.
AnyPointer typed(const plait_shape& s) { return {nullptr, s.dtype, 0}; }

// Sums are double where any operand is.
bool any_f64(const plait_op_desc& d) {
  const auto wide = [](const plait_shape& s) { return s.dtype == PLAIT_F64; };
  return std::any_of(d.inputs, d.inputs + d.n_inputs, wide) ||
         std::any_of(d.outputs, d.outputs + d.n_outputs, wide);
}

class GroupRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::GroupRows g = kit::parse_group_rows(d);
    choice.workspace = RowSort::workspace(g.tokens * g.each);
    why = "sorted by the group, up to 16 bytes a thread at once";
    return true;
  }
  GroupRows(plait_device* device, const plait_op_desc& d)
      : g_(kit::parse_group_rows(d)),
        sort_(device, {g_.tokens * g_.each, g_.groups, 0, d.inputs[1].dtype}),
        place_(device, "grouped_rows", "group_place"),
        copy_(device, "grouped_rows",
              {"group_copy_1", "group_copy_2", "group_copy_4", "group_copy_8", "group_copy_16"}) {
    row_bytes_ = g_.width * static_cast<int64_t>(kit::dtype_bytes(d.inputs[0].dtype));
  }
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    const int64_t rows = g_.tokens * g_.each;
    const RowSort::Sorted sorted = sort_.run(queue, operands[1], workspace);
    const GroupPlaceArgs place{sorted.keys,
                               sorted.places,
                               static_cast<int32_t*>(operands[3]),
                               static_cast<int32_t*>(operands[4]),
                               rows,
                               g_.groups};
    place_.launch(queue, {blocks_for(std::max(rows, g_.groups + 1), kGroupedBlock)}, kGroupedBlock,
                  place);
    const int unit =
        unit_power({static_cast<uint64_t>(row_bytes_), address(operands[0]), address(operands[2])});
    const int64_t units = row_bytes_ >> unit;
    const RowTiles tiles = row_tiles(rows, units);
    copy_[unit].launch(queue, tiles.grid, kTileBlock,
                       GroupCopyArgs{operands[0], operands[2], sorted.places, rows, g_.each, units,
                                     tiles.log_lanes, 0});
  }

 private:
  kit::GroupRows g_;
  RowSort sort_;
  Function place_;
  UnitFunctions copy_;
  int64_t row_bytes_ = 0;
};

class UngroupRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_ungroup_rows(d);
    choice.workspace = 0;
    why = "a thread for each sum";
    return true;
  }
  UngroupRows(plait_device* device, const plait_op_desc& d)
      : function_(device, "grouped_rows", any_f64(d) ? "ungroup_rows_f64" : "ungroup_rows_f32") {
    const kit::UngroupRows u = kit::parse_ungroup_rows(d);
    weighted_ = u.weighted;
    args_.rows = typed(d.inputs[0]), args_.y = typed(d.outputs[0]);
    if (weighted_) args_.weights = typed(d.inputs[1]);
    args_.place = typed(d.inputs[d.n_inputs - 1]);
    args_.tokens = u.tokens, args_.each = u.each, args_.width = u.width;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    UngroupArgs args = args_;
    const int place = weighted_ ? 2 : 1;
    args.rows.data = operands[0], args.place.data = operands[place];
    if (weighted_) args.weights.data = operands[1];
    args.y.data = operands[place + 1];
    const RowTiles tiles = row_tiles(args.tokens, args.width);
    args.log_lanes = tiles.log_lanes;
    function_.launch(queue, tiles.grid, kTileBlock, args);
  }

 private:
  Function function_;
  UngroupArgs args_{};
  bool weighted_ = false;
};

class UngroupRowsGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::UngroupRows u = kit::parse_ungroup_rows_grad(d);
    choice.workspace = static_cast<uint64_t>(u.tokens * u.each) * sizeof(int32_t);
    why = "a warp for each row";
    return true;
  }
  UngroupRowsGrad(plait_device* device, const plait_op_desc& d)
      : start_(device, "grouped_rows", "ungroup_grad_start"),
        sources_(device, "grouped_rows", "ungroup_grad_sources"),
        spread_(device, "grouped_rows", any_f64(d) ? "ungroup_grad_f64" : "ungroup_grad_f32") {
    const kit::UngroupRows u = kit::parse_ungroup_rows_grad(d);
    weighted_ = u.weighted;
    args_.dy = typed(d.inputs[0]), args_.place = typed(d.inputs[d.n_inputs - 1]);
    args_.drows = typed(d.outputs[0]);
    if (weighted_) {
      args_.rows = typed(d.inputs[1]), args_.weights = typed(d.inputs[2]);
      args_.dweights = typed(d.outputs[1]);
    }
    args_.count = u.tokens * u.each, args_.each = u.each, args_.width = u.width;
  }
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    UngroupGradArgs args = args_;
    const int place = weighted_ ? 3 : 1;
    args.dy.data = operands[0], args.place.data = operands[place];
    args.drows.data = operands[place + 1];
    if (weighted_) {
      args.rows.data = operands[1], args.weights.data = operands[2];
      args.dweights.data = operands[place + 2];
    }
    args.source = static_cast<int32_t*>(workspace);
    const Grid rows{blocks_for(args.count, kGroupedBlock)};
    start_.launch(queue, rows, kGroupedBlock, args);
    sources_.launch(queue, rows, kGroupedBlock, args);
    spread_.launch(queue, {blocks_for(args.count, kGroupedBlock / 32)}, kGroupedBlock, args);
  }

 private:
  Function start_, sources_, spread_;
  UngroupGradArgs args_{};
  bool weighted_ = false;
};

}  // namespace

void add_grouped_rows(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<GroupRows>("plain", "group_rows", "cuda", 0));
  out.push_back(kernel<UngroupRows>("plain", "ungroup_rows", "cuda", 0));
  out.push_back(kernel<UngroupRowsGrad>("plain", "ungroup_rows_grad", "cuda", 0));
}

}  // namespace plait::cuda

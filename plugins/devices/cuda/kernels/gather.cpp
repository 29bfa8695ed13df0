// gather and one_hot on the device, of every type.
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/gather.hpp"
#include "plugins/devices/cuda/kernels/gather_args.hpp"
#include "plugins/devices/cuda/kernels/row_tiles.hpp"

namespace plait::cuda {
namespace {

// 8 bytes of elements that are NaN, or 0 where the type has none.
uint64_t unknown_elements(uint32_t dtype) {
  switch (dtype) {
    case PLAIT_F32:
      return 0x7fc000007fc00000u;
    case PLAIT_F64:
      return 0x7ff8000000000000u;
    case PLAIT_BF16:
      return 0x7fc07fc07fc07fc0u;
    case PLAIT_F16:
      return 0x7e007e007e007e00u;
    default:
      return 0;
  }
}

class Gather {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_gather(d);
    choice.workspace = 0;
    why = "up to 16 bytes a thread at once";
    return true;
  }
  Gather(plait_device* device, const plait_op_desc& d)
      : functions_(device, "gather",
                   {"gather_1", "gather_2", "gather_4", "gather_8", "gather_16"}) {
    const kit::Gather g = kit::parse_gather(d);
    const uint32_t dtype = d.inputs[0].dtype;
    row_bytes_ = g.width * static_cast<int64_t>(kit::dtype_bytes(dtype));
    args_.index.dtype = g.index;
    args_.rows = g.rows, args_.count = g.count;
    args_.first = g.first, args_.total = g.total;
    args_.unknown = unknown_elements(dtype);
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    GatherArgs args = args_;
    args.table = operands[0], args.index.data = operands[1], args.y = operands[2];
    const int unit =
        unit_power({static_cast<uint64_t>(row_bytes_), address(operands[0]), address(operands[2])});
    args.units = row_bytes_ >> unit;
    const RowTiles tiles = row_tiles(args.count, args.units);
    args.log_lanes = tiles.log_lanes;
    functions_[unit].launch(queue, tiles.grid, kTileBlock, args);
  }

 private:
  UnitFunctions functions_;
  GatherArgs args_{};
  int64_t row_bytes_ = 0;
};

class OneHot {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_one_hot(d);
    choice.workspace = 0;
    why = "one pass of writing";
    return true;
  }
  OneHot(plait_device* device, const plait_op_desc& d) : function_(device, "gather", "one_hot") {
    const kit::Gather g = kit::parse_one_hot(d);
    args_.index.dtype = g.index;
    args_.y.dtype = d.outputs[0].dtype;
    args_.count = g.count, args_.depth = g.width;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    OneHotArgs args = args_;
    args.index.data = operands[0], args.y.data = operands[1];
    const RowTiles tiles = row_tiles(args.count, args.depth);
    args.log_lanes = tiles.log_lanes;
    function_.launch(queue, tiles.grid, kTileBlock, args);
  }

 private:
  Function function_;
  OneHotArgs args_{};
};

}  // namespace

void add_gather(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<Gather>("plain", "gather", "cuda", 0));
  out.push_back(kernel<OneHot>("plain", "one_hot", "cuda", 0));
}

}  // namespace plait::cuda

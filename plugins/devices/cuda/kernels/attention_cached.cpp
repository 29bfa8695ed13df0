// cache_write and attention_cached on the device.
#include <algorithm>
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/attention_cached.hpp"
#include "plugins/devices/cuda/kernels/attention_cached_args.hpp"
#include "plugins/devices/cuda/kernels/layout_args.hpp"
#include "plugins/devices/cuda/kernels/row_tiles.hpp"

namespace plait::cuda {
namespace {

// Of two rows for one place the later one is written, so that the result depends on no order.
class CacheWrite {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_cache_write(d);
    choice.workspace = 0;
    why = "neighbouring threads write a row";
    return true;
  }
  CacheWrite(plait_device* device, const plait_op_desc& d)
      : write_(device, "attention_cached", "cache_write"),
        copy_(
            device, "layout",
            {"layout_copy_1", "layout_copy_2", "layout_copy_4", "layout_copy_8", "layout_copy_16"}),
        bytes_(static_cast<uint64_t>(kit::elements(d.inputs[0])) *
               kit::dtype_bytes(d.inputs[0].dtype)) {
    const kit::CacheWrite w = kit::parse_cache_write(d);
    args_.cache.dtype = w.cache_type, args_.x.dtype = w.value_type;
    args_.slot.dtype = w.at.slot_type, args_.at.dtype = w.at.at_type;
    args_.samples = w.at.samples, args_.tokens = w.at.tokens;
    args_.slots = w.at.slots, args_.places = w.at.places, args_.width = w.width;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    if (operands[4] != operands[0]) copy(queue, operands[0], operands[4]);
    CacheWriteArgs args = args_;
    args.x.data = operands[1], args.slot.data = operands[2], args.at.data = operands[3];
    args.cache.data = operands[4];
    constexpr int64_t kWarp = 32;
    const RowTiles tiles = row_tiles(args.samples * args.tokens, std::max(args.width, kWarp));
    args.log_lanes = tiles.log_lanes;
    write_.launch(queue, tiles.grid, kTileBlock, args);
  }

 private:
  void copy(plait_queue* queue, const void* from, void* to) const {
    const int unit = unit_power({bytes_, address(from), address(to)});
    const auto units = static_cast<int64_t>(bytes_ >> unit);
    const RowTiles tiles = row_tiles(1, units);
    copy_[unit].launch(queue, tiles.grid, kTileBlock,
                       LayoutCopyArgs{from, to, 1, units, units, units, tiles.log_lanes, 0});
  }

  Function write_;
  UnitFunctions copy_;
  CacheWriteArgs args_{};
  uint64_t bytes_;
};

AttentionCachedArgs args_of(const plait_op_desc& d) {
  const kit::CachedAttention c = kit::parse_attention_cached(d);
  AttentionCachedArgs args{};
  args.q.dtype = args.out.dtype = d.inputs[0].dtype;
  args.k.dtype = args.v.dtype = c.cache_type;
  args.slot.dtype = c.at.slot_type, args.at.dtype = c.at.at_type;
  args.samples = c.at.samples, args.tokens = c.at.tokens;
  args.slots = c.at.slots, args.places = c.at.places;
  args.heads = c.a.heads, args.groups = c.a.groups, args.qk = c.a.qk, args.value = c.a.value;
  args.first_head = c.a.first_head, args.all_heads = c.a.all_heads;
  args.first_group = c.a.first_group, args.all_groups = c.a.all_groups;
  args.window = c.a.window, args.scale = c.a.scale, args.softcap = c.a.softcap;
  return args;
}

void set_operands(void* const* operands, AttentionCachedArgs& args) {
  args.q.data = operands[0], args.k.data = operands[1], args.v.data = operands[2];
  args.slot.data = operands[3], args.at.data = operands[4], args.out.data = operands[5];
}

class PlainAttentionCached {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    kit::parse_attention_cached(d);
    choice.workspace = 0;
    why = "a warp for each query, in double";
    return true;
  }
  PlainAttentionCached(plait_device* device, const plait_op_desc& d)
      : args_(args_of(d)), function_(device, "attention_cached", "attention_cached_plain") {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    AttentionCachedArgs args = args_;
    set_operands(operands, args);
    constexpr int64_t kWarps = kAttentionCachedBlock / 32;
    function_.launch(queue,
                     {blocks_for(args.samples * args.tokens * args.heads, kWarps),
                      std::max(1u, blocks_along_y(args.value, kAttentionCachedChannels))},
                     kAttentionCachedBlock, args);
  }

 private:
  AttentionCachedArgs args_;
  Function function_;
};

}  // namespace

void add_attention_cached(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CacheWrite>("plain", "cache_write", "cuda", 0));
  out.push_back(kernel<PlainAttentionCached>("plain", "attention_cached", "cuda", 0));
}

}  // namespace plait::cuda

// transpose, slice, pad and concat in units of up to 16 bytes.
#include <algorithm>
#include <numeric>

#include "kit/dtype.hpp"
#include "kit/ops/layout.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"
#include "plugins/devices/cuda/kernels/layout_fast_args.hpp"

namespace plait::cuda {
namespace {

// The most bytes, up to 16, of which a number of bytes is a multiple.
int64_t unit_of(int64_t bytes) { return std::gcd(bytes, int64_t{16}); }

template <auto Parse>
class FastBlocks {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Blocks b = Parse(d);
    choice.workspace = 0;
    if (b.zero && b.copies.size() > 1) {
      why = "several copies leave room for zeros";
      return false;
    }
    why = "units of " + std::to_string(unit(b, d)) + " bytes";
    return true;
  }
  FastBlocks(plait_device* device, const plait_op_desc& d) : blocks_(Parse(d)) {
    function_ =
        Function(device, "layout_fast", blocks_.zero ? "layout_copy_and_zero" : "layout_copy");
    unit_ = unit(blocks_, d);
    const int64_t size = size_of(d);
    const auto to_units = [&](int64_t& n) { n = n * size / unit_; };
    to_units(blocks_.to_step);
    for (kit::BlockCopy& c : blocks_.copies)
      for (int64_t* n : {&c.from, &c.from_step, &c.to, &c.length}) to_units(*n);
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    CopyArgs args{};
    args.y = operands[blocks_.copies.size()];
    args.outer = blocks_.outer;
    args.to_step = blocks_.to_step;
    args.unit = static_cast<uint32_t>(unit_);
    for (size_t first = 0; first < blocks_.copies.size(); first += kCopiesOfLaunch) {
      const size_t count = std::min<size_t>(blocks_.copies.size() - first, kCopiesOfLaunch);
      int64_t most = blocks_.zero ? args.to_step : 0;
      for (size_t i = 0; i < count; ++i) {
        const kit::BlockCopy& c = blocks_.copies[first + i];
        args.copies[i] = {operands[first + i], c.from, c.from_step, c.to, c.length};
        most = std::max(most, c.length);
      }
      function_.launch(queue,
                       {blocks_of_stride(blocks_.outer * most, 256), static_cast<unsigned>(count)},
                       256, args);
    }
  }

 private:
  static int64_t size_of(const plait_op_desc& d) {
    return static_cast<int64_t>(kit::dtype_bytes(d.outputs[0].dtype));
  }
  static int64_t unit(const kit::Blocks& b, const plait_op_desc& d) {
    int64_t all = unit_of(b.to_step * size_of(d));
    for (const kit::BlockCopy& c : b.copies)
      for (const int64_t n : {c.from, c.from_step, c.to, c.length})
        all = std::gcd(all, n * size_of(d));
    return all;
  }

  kit::Blocks blocks_;
  Function function_;
  int64_t unit_ = 1;
};

class FastTranspose {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = 0;
    why = keeps_last(kit::parse_transpose(d)) ? "rows stay whole" : "tiles";
    return true;
  }
  FastTranspose(plait_device* device, const plait_op_desc& d) {
    const kit::Transpose t = kit::parse_transpose(d);
    const auto size = static_cast<int64_t>(kit::dtype_bytes(d.outputs[0].dtype));
    tiled_ = !keeps_last(t);
    if (tiled_)
      set_tiles(t, size);
    else
      set_units(t, size, kit::elements(d.outputs[0]));
    function_ = Function(device, "layout_fast", tiled_ ? "layout_tiles" : "layout_gather_units");
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    if (tiled_) {
      TilesArgs args = tiles_;
      args.x = operands[0];
      args.y = operands[1];
      function_.launch(queue, {blocks_of_stride(args.blocks, 1)}, 256, args);
    } else {
      GatherUnitsArgs args = units_;
      args.x = operands[0];
      args.y = operands[1];
      function_.launch(queue, {blocks_of_stride(args.n, 256)}, 256, args);
    }
  }

 private:
  // Whether the last axis of y is the last one of x.
  static bool keeps_last(const kit::Transpose& t) {
    return t.extents.empty() || t.strides.back() == 1;
  }

  void set_units(const kit::Transpose& t, int64_t size, int64_t elements) {
    const int64_t unit = t.extents.empty() ? size : unit_of(t.extents.back() * size);
    const int64_t each = unit / size;  // elements
    units_.unit = static_cast<uint32_t>(unit);
    units_.n = elements / each;
    for (size_t i = 0; i < t.extents.size(); ++i) {
      const bool last = i + 1 == t.extents.size();
      units_.extents[i] = last ? t.extents[i] / each : t.extents[i];
      units_.strides[i] = last ? 1 : t.strides[i] / each;
    }
    units_.rank = static_cast<int32_t>(t.extents.size());
  }

  void set_tiles(const kit::Transpose& t, int64_t size) {
    const size_t last = t.extents.size() - 1;
    tiles_.unit = static_cast<uint32_t>(size);
    tiles_.cols = t.extents[last];
    tiles_.from_step = t.strides[last];
    tiles_.blocks = 1;
    int64_t to = t.extents[last];  // from one index of the axis to the next, in y
    for (size_t i = last; i-- > 0; to *= t.extents[i]) {
      if (t.strides[i] == 1) {
        tiles_.rows = t.extents[i];
        tiles_.to_step = to;
        continue;
      }
      const auto at = static_cast<size_t>(tiles_.rank++);
      tiles_.extents[at] = t.extents[i];
      tiles_.from[at] = t.strides[i];
      tiles_.to[at] = to;
      tiles_.blocks *= t.extents[i];
    }
    tiles_.row_tiles = (tiles_.rows + 31) / 32;
    tiles_.col_tiles = (tiles_.cols + 31) / 32;
    tiles_.blocks *= tiles_.row_tiles * tiles_.col_tiles;
  }

  Function function_;
  bool tiled_ = false;
  GatherUnitsArgs units_{};
  TilesArgs tiles_{};
};

}  // namespace

void add_layout_fast(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<FastTranspose>("tiles", "transpose", "cuda", 10));
  out.push_back(kernel<FastBlocks<kit::parse_slice>>("units", "slice", "cuda", 10));
  out.push_back(kernel<FastBlocks<kit::parse_pad>>("units", "pad", "cuda", 10));
  out.push_back(kernel<FastBlocks<kit::parse_concat>>("units", "concat", "cuda", 10));
}

}  // namespace plait::cuda

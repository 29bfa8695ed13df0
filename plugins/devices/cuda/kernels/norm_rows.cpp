// layer_norm, rms_norm and their gradients, each row by the threads of a warp or a block.
#include "kit/ops/norm.hpp"
#include "plugins/devices/cuda/kernels/norm_rows_args.hpp"
#include "plugins/devices/cuda/kernels/rows_on_host.hpp"

namespace plait::cuda {
namespace {

// The type of x and dx, and that of y and dy where it is another one.
#define PLAIT_NORM_TYPES(name) \
  { name "_f32", name "_bf16", name "_f16", name "_f32_bf16", name "_f32_f16" }

enum Way { kWarp, kWarpSingle, kBlock };
constexpr const char* kForward[][5] = {PLAIT_NORM_TYPES("norm_rows_warp"),
                                       PLAIT_NORM_TYPES("norm_rows_warp_single"),
                                       PLAIT_NORM_TYPES("norm_rows_block")};

enum GradWay { k8, k16, k32 };  // channels of a thread
constexpr const char* kGradient[][5] = {PLAIT_NORM_TYPES("norm_grad_rows_8"),
                                        PLAIT_NORM_TYPES("norm_grad_rows_16"),
                                        PLAIT_NORM_TYPES("norm_grad_rows_32")};
constexpr const char* kSums[] = PLAIT_ROW_TYPES("norm_sums_rows");
constexpr int64_t kMostParts = 256, kRowsOfPart = 8;

// The place of x and y in the tables; -1: there is no kernel for them.
int norm_type(uint32_t x, uint32_t y) {
  const int of_x = row_type(x), of_y = row_type(y);
  return of_x == of_y ? of_x : of_x == 0 && of_y > 0 ? 2 + of_y : -1;
}
bool in_packs(const kit::Rows& r, uint32_t x) {
  return r.cols * static_cast<int64_t>(kit::dtype_bytes(x)) % 16 == 0;
}

// any: also rows that packs of 16 bytes do not divide.
bool sizes_fit(const kit::Rows& r, uint32_t x, bool any, std::string& why) {
  if (!any && !in_packs(r, x)) why = "rows are no whole number of 16 bytes";
  if (r.cols == 0) why = "rows have no channels";
  if (r.cols > kBlockRow)
    why = "rows have " + std::to_string(r.cols) + " channels, at most " +
          std::to_string(kBlockRow) + " stay in registers";
  return why.empty() && rows_fit(r, why);
}
// y: y or dy. channels, rows: operands with a number per channel and per row.
bool types_fit(const plait_shape& x, const plait_shape& y, std::span<const plait_shape> channels,
               std::span<const plait_shape> rows, std::string& why) {
  if (norm_type(x.dtype, y.dtype) < 0)
    why = "takes rows of f32, bf16 or f16, and of one type or 16-bit ones beside f32";
  const uint32_t gain = channels[0].dtype;
  if (gain != PLAIT_F32 && gain != x.dtype) why = "takes gains of f32 or of the type of the rows";
  for (const plait_shape& s : channels)
    if (s.dtype != gain) why = "takes gain and bias of one type";
  for (const plait_shape& s : rows)
    if (s.dtype != PLAIT_F32) why = "takes f32 for mean and rstd";
  return why.empty();
}

template <bool kLayer>
class NormRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Rows r = kit::parse_norm(d, kLayer, false).x;
    if (!types_fit(d.inputs[0], d.outputs[0], {d.inputs + 1, kLayer ? 2u : 1u},
                   {d.outputs + 1, kLayer ? 2u : 1u}, why) ||
        !sizes_fit(r, d.inputs[0].dtype, r.cols <= kWarpRow, why))
      return false;
    choice.workspace = 0;
    why = by_warp(way_of(r, d.inputs[0].dtype)) ? "a warp for each row" : "a block for each row";
    return true;
  }
  NormRows(plait_device* device, const plait_op_desc& d)
      : shape_(kit::parse_norm(d, kLayer, false)),
        wide_(d.inputs[1].dtype == PLAIT_F32),
        way_(way_of(shape_.x, d.inputs[0].dtype)),
        function_(device, "norm_rows",
                  kForward[way_][norm_type(d.inputs[0].dtype, d.outputs[0].dtype)]) {}
  void run(plait_queue* queue, void* const* operands, void*) const {
    constexpr int kY = kLayer ? 3 : 2;
    NormRowsArgs a{};
    a.x = operands[0], a.gain = operands[1], a.y = operands[kY];
    if (kLayer) a.bias = operands[2], a.mean = static_cast<float*>(operands[kY + 1]);
    a.rstd = static_cast<float*>(operands[kY + 1 + kLayer]);
    a.rows = shape_.x.rows, a.cols = static_cast<int32_t>(shape_.x.cols);
    a.wide = wide_, a.eps = static_cast<float>(shape_.eps);
    function_.launch(queue, row_grid(a.rows, by_warp(way_)), kRowBlock, a);
  }

 private:
  static Way way_of(const kit::Rows& r, uint32_t x) {
    if (r.cols > kWarpRow) return kBlock;
    return in_packs(r, x) ? kWarp : kWarpSingle;
  }
  static bool by_warp(Way way) { return way == kWarp || way == kWarpSingle; }

  kit::Norm shape_;
  bool wide_;
  Way way_;
  Function function_;
};

template <bool kLayer>
class NormGradRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::Rows r = kit::parse_norm(d, kLayer, true).x;
    const plait_shape channels[] = {d.inputs[1], d.outputs[1], d.outputs[kLayer ? 2 : 1]};
    if (!types_fit(d.inputs[0], d.inputs[d.n_inputs - 1], channels,
                   {d.inputs + 2, kLayer ? 2u : 1u}, why) ||
        !sizes_fit(r, d.inputs[0].dtype, false, why))
      return false;
    if (d.outputs[0].dtype != d.inputs[0].dtype) {
      why = "takes dx of the type of x";
      return false;
    }
    choice.workspace = static_cast<uint64_t>(parts(r) * (kLayer ? 2 : 1) * r.cols) * sizeof(float);
    why = std::to_string(parts(r)) + " parts of the rows";
    return true;
  }
  NormGradRows(plait_device* device, const plait_op_desc& d)
      : shape_(kit::parse_norm(d, kLayer, true).x),
        wide_(d.inputs[1].dtype == PLAIT_F32),
        way_(way_of(shape_)),
        function_(device, "norm_rows",
                  kGradient[way_][norm_type(d.inputs[0].dtype, d.inputs[d.n_inputs - 1].dtype)]),
        sums_(device, "norm_rows", kSums[row_type(d.inputs[1].dtype)]) {}
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    constexpr int kRstd = kLayer ? 3 : 2, kDx = kRstd + 2;
    NormGradRowsArgs a{};
    a.x = operands[0], a.gain = operands[1];
    if (kLayer) a.mean = static_cast<const float*>(operands[2]);
    a.rstd = static_cast<const float*>(operands[kRstd]);
    a.dy = operands[kRstd + 1], a.dx = operands[kDx], a.sums = static_cast<float*>(workspace);
    a.rows = shape_.rows, a.parts = parts(shape_), a.cols = static_cast<int32_t>(shape_.cols);
    a.wide = wide_, a.row_threads = row_threads();
    function_.launch(queue, {static_cast<unsigned>(a.parts)}, kRowBlock, a);
    const NormSumsArgs sums{a.sums, operands[kDx + 1], kLayer ? operands[kDx + 2] : nullptr,
                            a.parts, a.cols};
    sums_.launch(queue, {blocks_for((kLayer ? 2 : 1) * shape_.cols, 32)}, kRowBlock, sums);
  }

 private:
  // A function of the shape alone, as the order of the sums is.
  static int64_t parts(const kit::Rows& r) {
    return std::min(kMostParts, (r.rows + kRowsOfPart - 1) / kRowsOfPart);
  }
  static GradWay way_of(const kit::Rows& r) {
    return r.cols <= 8 * kRowBlock ? k8 : r.cols <= 16 * kRowBlock ? k16 : k32;
  }
  int row_threads() const {
    constexpr int kChannels[] = {8, 16, 32};
    int threads = 32;
    while (threads * kChannels[way_] < shape_.cols) threads *= 2;
    return threads;
  }

  kit::Rows shape_;
  bool wide_;
  GradWay way_;
  Function function_, sums_;
};

}  // namespace

void add_norm_rows(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<NormRows<true>>("rows", "layer_norm", "cuda", kRowsPriority));
  out.push_back(kernel<NormRows<false>>("rows", "rms_norm", "cuda", kRowsPriority));
  out.push_back(kernel<NormGradRows<true>>("rows", "layer_norm_grad", "cuda", kRowsPriority));
  out.push_back(kernel<NormGradRows<false>>("rows", "rms_norm_grad", "cuda", kRowsPriority));
}

}  // namespace plait::cuda

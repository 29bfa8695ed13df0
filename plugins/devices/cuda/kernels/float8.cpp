// greatest_magnitude and quantize_f8 on the device.
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/float8.hpp"
#include "plugins/devices/cuda/kernels/float8_args.hpp"
#include "plugins/devices/cuda/kernels/kernel.hpp"

namespace plait::cuda {
namespace {

std::string name_of(const char* kernel, uint32_t dtype) {
  return std::string(kernel) + kit::dtype_name(dtype);
}
Function load(plait_device* device, const std::string& name) {
  return Function(device_of(device).function("float8", name), "a kernel of 8-bit floats");
}

// The whole: of each row into the workspace, then of these. Columns: of parts of the rows likewise.
class GreatestMagnitude {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::GreatestMagnitude p = kit::parse_greatest_magnitude(d);
    choice.workspace = sizeof(uint32_t) * static_cast<uint64_t>(parts_of(p) * per_part(p));
    why = p.of == kit::ScaleOf::kColumns ? "a thread for each column" : "a block for each row";
    return true;
  }
  GreatestMagnitude(plait_device* device, const plait_op_desc& d)
      : p_(kit::parse_greatest_magnitude(d)), parts_(parts_of(p_)) {
    const bool columns = p_.of == kit::ScaleOf::kColumns;
    const char* kernel = columns ? "magnitude_columns_" : "magnitude_rows_";
    first_ = load(device, name_of(kernel, d.inputs[0].dtype));
    second_ = load(device, name_of(kernel, PLAIT_F32));
  }
  void run(plait_queue* queue, void* const* operands, void* workspace) const {
    auto* most = static_cast<uint32_t*>(operands[1]);
    auto* parts = parts_ > 0 ? static_cast<uint32_t*>(workspace) : most;
    if (p_.of == kit::ScaleOf::kColumns) {
      columns(queue, first_, operands[0], parts, p_.rows, parts_ > 0 ? kRowsOfPart : p_.rows);
      if (parts_ > 0) columns(queue, second_, parts, most, parts_, parts_);
      return;
    }
    rows(queue, first_, operands[0], parts, p_.rows, p_.columns);
    if (parts_ > 0) rows(queue, second_, parts, most, 1, p_.rows);
  }

 private:
  static constexpr int64_t kRowsOfPart = 128;
  // Numbers, or rows of them, that lie in the workspace; 0: the first pass writes the result.
  static int64_t parts_of(const kit::GreatestMagnitude& p) {
    if (p.of == kit::ScaleOf::kTensor) return p.rows == 1 ? 0 : std::max<int64_t>(p.rows, 1);
    if (p.of == kit::ScaleOf::kRows || p.rows <= kRowsOfPart) return 0;
    return (p.rows + kRowsOfPart - 1) / kRowsOfPart;
  }
  static int64_t per_part(const kit::GreatestMagnitude& p) {
    return p.of == kit::ScaleOf::kColumns ? p.columns : 1;
  }
  static void rows(plait_queue* queue, const Function& f, const void* x, uint32_t* most,
                   int64_t rows, int64_t columns) {
    f.launch(queue, {blocks_for(rows, 1)}, kFloat8Threads,
             MagnitudeArgs{x, most, rows, columns, 0});
  }
  // Without rows the one part has none, and its result is 0.
  void columns(plait_queue* queue, const Function& f, const void* x, uint32_t* most, int64_t rows,
               int64_t rows_of_part) const {
    const unsigned parts = rows_of_part > 0 ? blocks_along_y(rows, rows_of_part) : 1;
    f.launch(queue, {blocks_for(p_.columns, kFloat8Threads), parts}, kFloat8Threads,
             MagnitudeArgs{x, most, rows, p_.columns, rows_of_part});
  }

  kit::GreatestMagnitude p_;
  int64_t parts_;
  Function first_, second_;
};

class QuantizeF8 {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::QuantizeF8 p = kit::parse_quantize_f8(d);
    choice.workspace = 0;
    why =
        p.transpose ? "a block for each tile, which it transposes" : "a thread for each 4 elements";
    return true;
  }
  QuantizeF8(plait_device* device, const plait_op_desc& d) : p_(kit::parse_quantize_f8(d)) {
    const uint32_t dtype = d.inputs[0].dtype;
    at_once_ = dtype == PLAIT_F64 ? 2 : 4;
    const bool whole = p_.columns % at_once_ == 0;
    if (!whole) at_once_ = 1;
    quantize_ = load(device, p_.transpose ? name_of("quantize_columns_", dtype)
                                          : name_of("quantize_rows_", dtype) + (whole ? "" : "_1"));
    scales_ = load(device, "float8_scales");
    args_.rows = p_.rows;
    args_.columns = p_.columns;
    args_.each = p_.of != kit::ScaleOf::kTensor;
    args_.scales = p_.scales();
    args_.dtype = p_.format;
  }
  void run(plait_queue* queue, void* const* operands, void*) const {
    QuantizeF8Args args = args_;
    args.x = operands[0];
    args.most = static_cast<const float*>(operands[1]);
    args.q = static_cast<uint8_t*>(operands[2]);
    args.scale = static_cast<float*>(operands[3]);
    scales_.launch(queue, {blocks_for(args.scales, kFloat8Threads)}, kFloat8Threads, args);
    const Grid grid =
        p_.transpose
            ? Grid{blocks_for(p_.columns, kFloat8Tile), blocks_along_y(p_.rows, kFloat8Tile)}
            : Grid{blocks_for(p_.rows * p_.columns, int64_t{kFloat8Threads} * at_once_)};
    quantize_.launch(queue, grid, kFloat8Threads, args);
  }

 private:
  kit::QuantizeF8 p_;
  int64_t at_once_ = 1;  // elements of a row that a thread takes
  Function quantize_, scales_;
  QuantizeF8Args args_{};
};

}  // namespace

void add_float8(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<GreatestMagnitude>("plain", "greatest_magnitude", "cuda", 0));
  out.push_back(kernel<QuantizeF8>("plain", "quantize_f8", "cuda", 0));
}

}  // namespace plait::cuda

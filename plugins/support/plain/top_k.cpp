// top_k and its gradient: each row is sorted in double.
#include "kit/ops/top_k.hpp"

#include <algorithm>
#include <numeric>

#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainTopK {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = bytes(parse_top_k(d));
    why = "rows sorted in double";
    return true;
  }
  PlainTopK(plait_device*, const plait_op_desc& d) : t_(parse_top_k(d)), type_(d.inputs[0].dtype) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    auto* row = static_cast<double*>(workspace);
    double* values = row + t_.extent;
    auto* order = reinterpret_cast<int64_t*>(values + t_.k);
    for (int64_t r = 0; r < t_.rows; ++r) {
      read_elements(type_, operands[0], r * t_.extent, 1, t_.extent, row);
      std::iota(order, order + t_.extent, int64_t{0});
      std::partial_sort(order, order + t_.k, order + t_.extent,
                        [row](int64_t a, int64_t b) { return comes_before(row[a], a, row[b], b); });
      for (int64_t j = 0; j < t_.k; ++j) {
        values[j] = row[order[j]];
        write_element(PLAIT_I32, operands[2], r * t_.k + j, static_cast<double>(order[j]));
      }
      write_elements(type_, operands[1], r * t_.k, 1, t_.k, values);
    }
  }

 private:
  static uint64_t bytes(const TopK& t) { return Scratch::bytes(2 * t.extent + t.k); }
  TopK t_;
  uint32_t type_;
};

class PlainTopKGrad {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    choice.workspace = Scratch::bytes(parse_top_k_grad(d).extent);
    why = "plain loops";
    return true;
  }
  PlainTopKGrad(plait_device*, const plait_op_desc& d)
      : t_(parse_top_k_grad(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* data, void* workspace) const {
    const Operands operands(types_, data);
    const auto row = Scratch(workspace).row(t_.extent);
    for (int64_t r = 0; r < t_.rows; ++r) {
      std::fill(row.begin(), row.end(), 0.0);
      for (int64_t j = r * t_.k; j < (r + 1) * t_.k; ++j) {
        const int64_t at = operands.index(1, j);
        if (at >= 0 && at < t_.extent) row[static_cast<size_t>(at)] += operands.get(0, j);
      }
      operands.write(2, r * t_.extent, row);
    }
  }

 private:
  TopK t_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_top_k(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainTopK>("plain", "top_k", device, 0));
  out.push_back(kernel<PlainTopKGrad>("plain", "top_k_grad", device, 0));
}

}  // namespace plait::support

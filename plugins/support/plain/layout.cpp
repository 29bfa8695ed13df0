// transpose, slice, pad and concat: elements move, byte by byte, and are never converted.
#include <cstring>

#include "kit/dtype.hpp"
#include "kit/ops/layout.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

template <auto Parse>
class PlainBlocks {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    Parse(d);
    choice.workspace = 0;
    why = "whole blocks are copied";
    return true;
  }
  PlainBlocks(plait_device*, const plait_op_desc& d)
      : blocks_(Parse(d)), size_(static_cast<int64_t>(dtype_bytes(d.outputs[0].dtype))) {}
  void run(plait_queue*, void* const* operands, void*) const {
    auto* y = static_cast<char*>(operands[blocks_.copies.size()]);
    const auto all = static_cast<size_t>(blocks_.outer * blocks_.to_step * size_);
    if (blocks_.zero && all) std::memset(y, 0, all);
    for (int64_t o = 0; o < blocks_.outer; ++o)
      for (size_t i = 0; i < blocks_.copies.size(); ++i) {
        const BlockCopy& c = blocks_.copies[i];
        const auto* x = static_cast<const char*>(operands[i]);
        if (c.length > 0)
          std::memcpy(y + (o * blocks_.to_step + c.to) * size_,
                      x + (o * c.from_step + c.from) * size_,
                      static_cast<size_t>(c.length * size_));
      }
  }

 private:
  Blocks blocks_;
  int64_t size_;
};

class PlainTranspose {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_transpose(d);
    choice.workspace = 0;
    why = "plain loops";
    return true;
  }
  PlainTranspose(plait_device*, const plait_op_desc& d)
      : shape_(parse_transpose(d)),
        count_(elements(d.outputs[0])),
        size_(dtype_bytes(d.outputs[0].dtype)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto* x = static_cast<const char*>(operands[0]);
    auto* y = static_cast<char*>(operands[1]);
    for (int64_t i = 0; i < count_; ++i) {
      int64_t at = 0, rest = i;
      for (size_t j = shape_.extents.size(); j-- > 0; rest /= shape_.extents[j])
        at += rest % shape_.extents[j] * shape_.strides[j];
      std::memcpy(y + static_cast<uint64_t>(i) * size_, x + static_cast<uint64_t>(at) * size_,
                  size_);
    }
  }

 private:
  Transpose shape_;
  int64_t count_;
  uint64_t size_;
};

}  // namespace

void add_plain_layout(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainTranspose>("plain", "transpose", device, 0));
  out.push_back(kernel<PlainBlocks<parse_slice>>("plain", "slice", device, 0));
  out.push_back(kernel<PlainBlocks<parse_pad>>("plain", "pad", device, 0));
  out.push_back(kernel<PlainBlocks<parse_concat>>("plain", "concat", device, 0));
}

}  // namespace plait::support

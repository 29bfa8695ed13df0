// split_halves and join_halves: see kit/ops/halves.hpp.
#include "kit/ops/halves.hpp"

#include <cstring>

#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

template <int64_t (*parse)(const plait_op_desc&)>
class PlainHalves {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse(d);
    choice.workspace = 0;
    why = "plain loops";
    return true;
  }
  PlainHalves(plait_device*, const plait_op_desc& d) : n_(parse(d)) {}

 protected:
  int64_t n_;
};

class PlainSplitHalves : public PlainHalves<parse_split_halves> {
 public:
  using PlainHalves::PlainHalves;
  void run(plait_queue*, void* const* operands, void*) const {
    const auto* x = static_cast<const float*>(operands[0]);
    auto* high = static_cast<uint16_t*>(operands[1]);
    auto* low = static_cast<char*>(operands[2]);
    for (int64_t i = 0; i < n_; ++i) {
      const Halves h = split_halves(x[i]);
      high[i] = h.high;
      std::memcpy(low + kLowBytes * i, &h.low, kLowBytes);
    }
  }
};

class PlainJoinHalves : public PlainHalves<parse_join_halves> {
 public:
  using PlainHalves::PlainHalves;
  void run(plait_queue*, void* const* operands, void*) const {
    const auto* high = static_cast<const uint16_t*>(operands[0]);
    const auto* low = static_cast<const char*>(operands[1]);
    auto* x = static_cast<float*>(operands[2]);
    for (int64_t i = 0; i < n_; ++i) {
      Halves h{high[i], 0};
      std::memcpy(&h.low, low + kLowBytes * i, kLowBytes);
      x[i] = join_halves(h);
    }
  }
};

}  // namespace

void add_plain_halves(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainSplitHalves>("plain", "split_halves", device, 0));
  out.push_back(kernel<PlainJoinHalves>("plain", "join_halves", device, 0));
}

}  // namespace plait::support

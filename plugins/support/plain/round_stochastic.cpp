// round_stochastic: kit/ops/round_stochastic.hpp says which element gets which bits.
#include "kit/ops/round_stochastic.hpp"

#include "plugins/support/philox.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainRoundStochastic {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_round_stochastic(d);
    choice.workspace = 0;
    why = "plain loops";
    return true;
  }
  PlainRoundStochastic(plait_device*, const plait_op_desc& d)
      : r_(parse_round_stochastic(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto step = static_cast<int64_t>(Operands(types_, operands).get(1, 0));
    const auto* x = static_cast<const float*>(operands[0]);
    auto* y = static_cast<uint16_t*>(operands[2]);
    for (int64_t i = 0; i < r_.n; ++i) {
      const int64_t e = r_.element(i);
      const auto q = static_cast<uint64_t>(e / kRoundedByBlock);
      const PhiloxBlock block =
          random_block(r_.seed, stream_word(r_.stream), step, static_cast<int64_t>(q >> 32), q);
      y[i] = round_stochastic(x[i], rounding_bits(block, e));
    }
  }

 private:
  RoundStochastic r_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_round_stochastic(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainRoundStochastic>("plain", "round_stochastic", device, 0));
}

}  // namespace plait::support

// random: uniform and normal numbers from Philox; philox.hpp says which element gets which number.
#include "kit/ops/random.hpp"
#include "plugins/support/philox.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainRandom {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_random(d);
    choice.workspace = 0;
    why = "plain loops";
    return true;
  }
  PlainRandom(plait_device*, const plait_op_desc& d)
      : shape_(parse_random(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const Operands op(types_, operands);
    const int64_t step = op.index(0, 0),
                  first = shape_.by_sample ? op.index(0, 1) + shape_.first_sample : 0;
    for (int64_t s = 0; s < shape_.samples; ++s)
      for (int64_t e = 0; e < shape_.per_sample; ++e)
        op.set(1, s * shape_.per_sample + e,
               number(static_cast<uint64_t>(shape_.element(e)), step, first + s));
  }

 private:
  double number(uint64_t e, int64_t step, int64_t sample) const {
    const uint64_t q = e / 4;
    const int64_t high = shape_.by_sample ? sample : static_cast<int64_t>(q >> 32);
    const PhiloxBlock block = random_block(shape_.seed, stream_word(shape_.stream), step, high, q);
    if (!shape_.normal) return double{to_uniform(block[e % 4])};
    return to_normal(block[e % 4 / 2 * 2], block[e % 4 / 2 * 2 + 1])[e % 2];
  }

  Random shape_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_random(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainRandom>("plain", "random", device, 0));
}

}  // namespace plait::support

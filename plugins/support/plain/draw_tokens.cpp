// draw_tokens: row after row, as the sampler of the host does.
#include "kit/ops/draw_tokens.hpp"

#include "kit/draw_token.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

using PlainDraw = TokenDraw<PlainLogits>;

class PlainDrawTokens {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const DrawTokens t = parse_draw_tokens(d);
    choice.workspace =
        static_cast<uint64_t>(PlainDraw::scratch_words(t.vocabulary)) * sizeof(uint64_t);
    why = "rows of weights that are whole numbers";
    return true;
  }
  PlainDrawTokens(plait_device*, const plait_op_desc& d) : t_(parse_draw_tokens(d)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const auto* logits = static_cast<const float*>(operands[0]);
    const auto* settings = static_cast<const float*>(operands[1]);
    const auto* numbers = static_cast<const int32_t*>(operands[2]);
    for (int64_t r = 0; r < t_.rows; ++r) {
      PlainDraw row({logits + r * t_.vocabulary, static_cast<size_t>(t_.vocabulary)},
                    static_cast<uint64_t*>(workspace));
      const Drawn drawn = row.draw(settings + r * kDrawSettings, numbers + r * kDrawNumbers);
      static_cast<int32_t*>(operands[3])[r] = drawn.id;
      static_cast<float*>(operands[4])[r] = drawn.log_probability;
    }
  }

 private:
  DrawTokens t_;
};

}  // namespace

void add_plain_draw_tokens(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainDrawTokens>("plain", "draw_tokens", device, 0));
}

}  // namespace plait::support

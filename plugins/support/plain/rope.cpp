// rope_table and rope. Angles are f32, as kit/ops/rope.cpp says; their cos and sin are rounded to
// f32 once.
#include <cmath>

#include "kit/ops/rope.hpp"
#include "plugins/support/plain/operand.hpp"
#include "plugins/support/plain/plain.hpp"

namespace plait::support {
namespace {

class PlainRopeTable {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    parse_rope_table(d);
    choice.workspace = 0;
    why = "plain loops";
    return true;
  }
  PlainRopeTable(plait_device*, const plait_op_desc& d)
      : table_(parse_rope_table(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const Operands op(types_, operands);
    const size_t cos = (table_.has_positions ? 1 : 0) + (table_.has_lengths ? 1 : 0);
    int64_t at = 0;
    for (int64_t t = 0; t < table_.tokens; ++t) {
      const auto position = static_cast<float>(table_.has_positions ? op.index(0, t) : t);
      const int64_t length = table_.has_lengths ? op.index(1, t / table_.sample) : 0;
      for (const float f : table_.frequency_of(length)) {
        const double angle = position * f;
        op.set(cos, at, static_cast<float>(std::cos(angle)) * table_.amplitude);
        op.set(cos + 1, at++, static_cast<float>(std::sin(angle)) * table_.amplitude);
      }
    }
  }

 private:
  RopeTable table_;
  std::vector<uint32_t> types_;
};

class PlainRope {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const Rope r = parse_rope(d);
    choice.workspace = Scratch::bytes(r.channels + 2 * r.pairs);
    why = "plain loops in double";
    return true;
  }
  PlainRope(plait_device*, const plait_op_desc& d) : r_(parse_rope(d)), types_(operand_types(d)) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    const Operands op(types_, operands);
    Scratch scratch(workspace);
    const auto x = scratch.row(r_.channels), cos = scratch.row(r_.pairs),
               sin = scratch.row(r_.pairs);
    for (int64_t token = 0; token < r_.samples * r_.tokens; ++token) {
      const int64_t row = r_.by_sample ? token : token % r_.tokens;
      op.read(1, row * r_.pairs, cos);
      op.read(2, row * r_.pairs, sin);
      for (int64_t h = 0; h < r_.heads; ++h) {
        const int64_t at = (token * r_.heads + h) * r_.channels;
        op.read(0, at, x);
        for (size_t j = 0; j < cos.size(); ++j) turn(x, static_cast<int64_t>(j), cos[j], sin[j]);
        op.write(3, at, x);
      }
    }
  }

 private:
  void turn(std::span<double> x, int64_t j, double cos, double sin) const {
    double &a = x[static_cast<size_t>(r_.first(j))], &b = x[static_cast<size_t>(r_.second(j))];
    if (r_.inverse) sin = -sin;
    const double turned = a * cos - b * sin;
    b = b * cos + a * sin;
    a = turned;
  }
  Rope r_;
  std::vector<uint32_t> types_;
};

}  // namespace

void add_plain_rope(std::vector<plait_kernel_item>& out, const char* device) {
  out.push_back(kernel<PlainRopeTable>("plain", "rope_table", device, 0));
  out.push_back(kernel<PlainRope>("plain", "rope", device, 0));
}

}  // namespace plait::support

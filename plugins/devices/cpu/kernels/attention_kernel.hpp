// Attention and its gradient as kernels: the keys that each query sees, computed once per launch,
// and the threads.
#pragma once

#include <algorithm>

#include "plugins/devices/cpu/kernels/attention_args.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/simd.hpp"
#include "plugins/devices/cpu/parallel.hpp"
#include "plugins/support/elements.hpp"

namespace plait::cpu {

class AttentionRanges {
 public:
  AttentionRanges(const kit::Attention& a, const plait_op_desc& d)
      : a_(a), first_type_(a.has_first ? d.inputs[a.first_input].dtype : PLAIT_I32) {}

  // At the beginning of the workspace: (B, T), or (T) without documents.
  uint64_t bytes() const {
    return static_cast<uint64_t>((a_.has_first ? a_.samples : 1) * a_.queries) *
           sizeof(kit::KeyRange);
  }
  // Sets x.ranges, and the counter of dropout. Returns the workspace behind them.
  void* fill(void* const* operands, void* workspace, AttentionArgs& x) const {
    auto* ranges = static_cast<kit::KeyRange*>(workspace);
    x.ranges = ranges;
    if (a_.dropout > 0) {
      const auto* counter = static_cast<const int64_t*>(operands[a_.counter_input]);
      x.step = static_cast<uint32_t>(counter[0]);
      x.first_sample = counter[1];
    }
    if (a_.has_first) {
      x.ranges_stride = a_.queries;
      for (int64_t b = 0; b < a_.samples; ++b)
        fill_documents(operands[a_.first_input], b, ranges + b * a_.queries);
    } else {
      for (int64_t t = 0; t < a_.queries; ++t) ranges[t] = kit::keys_of(a_, t, 0, a_.keys);
    }
    return static_cast<char*>(workspace) + bytes();
  }

 private:
  // From the last query to the first, so that the end of each document is known.
  void fill_documents(const void* firsts, int64_t sample, kit::KeyRange* ranges) const {
    const auto first_of = [&](int64_t t) {
      return support::read_index(first_type_, firsts, sample * a_.queries + t);
    };
    int64_t end = a_.queries;
    for (int64_t t = a_.queries - 1; t >= 0; --t) {
      const int64_t first = first_of(t);
      if (t + 1 < a_.queries && first_of(t + 1) != first) end = t + 1;
      ranges[t] = kit::keys_of(a_, t, first, end);
    }
  }

  kit::Attention a_;
  uint32_t first_type_;
};

// On one core; products: of scores with channels.
inline double attention_nanoseconds(const kit::Attention& a, int products) {
  constexpr double kPerMultiplication = 0.03;
  double keys = static_cast<double>(a.keys) * (a.causal ? 0.5 : 1);
  if (a.window > 0) keys = std::min(keys, static_cast<double>(a.window) * (a.causal ? 1 : 2));
  return static_cast<double>(a.samples * a.heads * a.queries) * keys *
         static_cast<double>(a.qk + a.value) / 2 * products * kPerMultiplication;
}

// Direction: takes() a call, parse() of the op, floats() of scratch for a thread, number of
// units(), kProducts, bind() of the operands behind the optional inputs, pick(), the function that
// computes units [first, last), and how(), for the text of select().
template <class Direction>
class CpuAttention {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    if (!Direction::takes(d, why)) return false;
    const CpuAttention kernel(nullptr, d);
    choice.workspace = kernel.ranges_.bytes() +
                       static_cast<uint64_t>(kernel.num_threads_ * kernel.floats_) * sizeof(float);
    why = variant(Direction::how(), kernel.num_threads_);
    return true;
  }
  CpuAttention(plait_device*, const plait_op_desc& d)
      : args_{.a = Direction::parse(d)},
        ranges_(args_.a, d),
        floats_(Direction::floats(args_)),
        units_(Direction::units(args_)),
        num_threads_(choose_num_threads(
            d.threads, attention_nanoseconds(args_.a, Direction::kProducts), units_)),
        function_(Direction::pick()) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    AttentionArgs x = args_;
    Direction::bind(x, operands, operands + x.a.counter_input + (x.a.dropout > 0 ? 1 : 0));
    auto* scratch = static_cast<float*>(ranges_.fill(operands, workspace, x));
    on_pool(num_threads_, [&](int64_t t, int64_t all) {
      function_(x, scratch + t * floats_, units_ * t / all, units_ * (t + 1) / all);
    });
  }

 private:
  AttentionArgs args_;
  AttentionRanges ranges_;
  int64_t floats_, units_;
  int num_threads_;
  AttentionUnits function_;
};

}  // namespace plait::cpu

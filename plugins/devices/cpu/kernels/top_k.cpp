// top_k of f32 with threads over the rows. The k chosen so far are kept in order; a number that
// does not come before the last of them costs one comparison.
#include "kit/ops/top_k.hpp"

#include "kit/dtype.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

constexpr int64_t kMostChosen = 64;  // beyond that sorting takes fewer steps
constexpr double kNanosecondsPerNumber = 1.5;

class CpuTopK {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const kit::TopK t = kit::parse_top_k(d);
    if (d.inputs[0].dtype != PLAIT_F32) {
      why = std::string("takes f32 only, found ") + kit::dtype_name(d.inputs[0].dtype);
      return false;
    }
    if (t.k > kMostChosen) {
      why = "takes at most " + std::to_string(kMostChosen) + " of a row";
      return false;
    }
    choice.workspace = 0;
    why = "insertion into the chosen, threads over rows";
    return true;
  }
  CpuTopK(plait_device*, const plait_op_desc& d) : t_(kit::parse_top_k(d)) {
    threads_ = choose_num_threads(
        d.threads,
        static_cast<double>(t_.rows) * static_cast<double>(t_.extent) * kNanosecondsPerNumber,
        t_.rows);
  }
  void run(plait_queue*, void* const* operands, void*) const {
    in_parallel(threads_, t_.rows, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r)
        choose(static_cast<const float*>(operands[0]) + r * t_.extent,
               static_cast<float*>(operands[1]) + r * t_.k,
               static_cast<int32_t*>(operands[2]) + r * t_.k);
    });
  }

 private:
  void choose(const float* x, float* values, int32_t* index) const {
    int64_t n = 0;
    for (int64_t i = 0; i < t_.extent; ++i) {
      if (n == t_.k && !kit::comes_before(x[i], i, values[n - 1], int64_t{index[n - 1]})) continue;
      int64_t at = n < t_.k ? n++ : n - 1;
      for (; at > 0 && kit::comes_before(x[i], i, values[at - 1], int64_t{index[at - 1]}); --at) {
        values[at] = values[at - 1];
        index[at] = index[at - 1];
      }
      values[at] = x[i];
      index[at] = static_cast<int32_t>(i);
    }
  }

  kit::TopK t_;
  int threads_ = 1;
};

}  // namespace

void add_top_k(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuTopK>("parallel", "top_k", kDevice, kFastPriority));
}

}  // namespace plait::cpu

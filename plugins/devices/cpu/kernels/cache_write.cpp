// cache_write: rows copied as they are, with threads. A thread takes some columns of all rows, so
// of two rows at one place the later one stays, whatever the number of threads.
#include <algorithm>
#include <cstring>
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/attention_cached.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/parallel.hpp"
#include "plugins/support/elements.hpp"

namespace plait::cpu {
namespace {

constexpr double kNanosecondsPerByte = 0.1;
constexpr int64_t kLineBytes = 64;  // threads write to lines of their own

class CpuCacheWrite {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const CpuCacheWrite kernel(nullptr, d);
    if (kernel.w_.cache_type != kernel.w_.value_type) {
      why = std::string("takes rows of the cache's type only, found ") +
            kit::dtype_name(kernel.w_.value_type);
      return false;
    }
    choice.workspace = 0;
    why = "rows copied" + (kernel.num_threads_ > 1
                               ? ", " + std::to_string(kernel.num_threads_) + " threads"
                               : std::string());
    return true;
  }
  CpuCacheWrite(plait_device*, const plait_op_desc& d)
      : w_(kit::parse_cache_write(d)),
        bytes_(kit::bytes(d.inputs[0])),
        row_bytes_(w_.width * static_cast<int64_t>(kit::dtype_bytes(w_.cache_type))),
        lines_((row_bytes_ + kLineBytes - 1) / kLineBytes),
        num_threads_(choose_num_threads(d.threads,
                                        static_cast<double>(w_.at.samples * w_.at.tokens) *
                                            static_cast<double>(row_bytes_) * kNanosecondsPerByte,
                                        lines_)) {}
  void run(plait_queue*, void* const* operands, void*) const {
    if (operands[4] != operands[0] && bytes_) std::memcpy(operands[4], operands[0], bytes_);
    in_parallel(num_threads_, lines_, [&](int64_t first, int64_t last) {
      write(operands, first * kLineBytes, std::min(last * kLineBytes, row_bytes_));
    });
  }

 private:
  // Bytes [begin, end) of each row.
  void write(void* const* operands, int64_t begin, int64_t end) const {
    if (begin >= end) return;
    const auto* x = static_cast<const char*>(operands[1]) + begin;
    auto* cache = static_cast<char*>(operands[4]) + begin;
    const auto size = static_cast<size_t>(end - begin);
    for (int64_t b = 0; b < w_.at.samples; ++b) {
      const int64_t slot = support::read_index(w_.at.slot_type, operands[2], b);
      if (!w_.at.has_slot(slot)) continue;
      for (int64_t i = 0; i < w_.at.tokens; ++i) {
        const int64_t token = b * w_.at.tokens + i,
                      at = support::read_index(w_.at.at_type, operands[3], token);
        if (w_.at.has_place(at))
          std::memcpy(cache + (slot * w_.at.places + at) * row_bytes_, x + token * row_bytes_,
                      size);
      }
    }
  }

  kit::CacheWrite w_;
  uint64_t bytes_;
  int64_t row_bytes_, lines_;
  int num_threads_;
};

}  // namespace

void add_cache_write(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuCacheWrite>("rows", "cache_write", kDevice, kFastPriority));
}

}  // namespace plait::cpu

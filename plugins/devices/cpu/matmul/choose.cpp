// The ranked list: weights read once, generated code, oneDNN, plain loops; the first entry that
// supports the problem
// is chosen. An entry that is known to be slower than oneDNN for a problem is tried only if oneDNN
// refuses.

#include <iterator>
#include <limits>
#include <stdexcept>
#include <vector>

#include "plugins/devices/cpu/matmul/candidates.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/plain.hpp"

namespace plait::cpu {
namespace {

std::string shape_text(const MatmulDesc& d) {
  return std::to_string(d.batch) + " x (" + std::to_string(d.m) + "," + std::to_string(d.k) +
         ")*(" + std::to_string(d.k) + "," + std::to_string(d.n) + ")";
}

[[noreturn]] void refuse(const MatmulDesc& d, const std::string& found,
                         const std::string& expected) {
  throw std::invalid_argument("[matmul] " + found + " in " + shape_text(d) + "; expected " +
                              expected);
}

void check_product(const MatmulDesc& d, int64_t x, int64_t y) {
  constexpr int64_t kMost =
      std::numeric_limits<int64_t>::max() / static_cast<int64_t>(sizeof(float));
  if (y != 0 && x > kMost / y) refuse(d, "matrix too large", "byte counts below 2^63");
}

void check(const MatmulDesc& d) {
  if (d.batch < 0 || d.m < 0 || d.n < 0 || d.k < 0) refuse(d, "negative size", "sizes >= 0");
  if (d.batch_stride_a < 0 || d.batch_stride_b < 0 || d.batch_stride_c < 0) {
    refuse(d, "negative batch stride", "strides >= 0");
  }
  check_product(d, d.m, d.k);
  check_product(d, d.k, d.n);
  check_product(d, d.m, d.n);
  if (d.batch > 1 && d.batch_stride_c < d.m * d.n) {
    refuse(d, "batch stride of C " + std::to_string(d.batch_stride_c),
           "at least m*n, so that results don't overlap");
  }
  if (d.accumulate && (d.bias || d.activation != Activation::none)) {
    refuse(d, "accumulate with bias or activation", "one or the other");
  }
  if (d.squares && (d.accumulate || d.bias || d.activation != Activation::none)) {
    refuse(d, "squares with accumulate, bias or activation", "one or the other");
  }
  if (d.quantized_b) refuse(d, "quantized B", "QuantizedMatmul for it");
  if (d.threads < 1) refuse(d, "threads = " + std::to_string(d.threads), "at least 1");
}

class PlainMatmul final : public MatmulKernel {
 public:
  explicit PlainMatmul(const MatmulDesc& desc) : desc_(desc) {}
  void run(const MatmulArgs& args) const override {
    matmul_plain(desc_, args.a, args.b, args.bias, args.c);
    if (desc_.squares) *args.squares = plain_squares(desc_, args.c);
  }
  std::string_view name() const override { return "plain"; }
  size_t workspace_bytes() const override { return 0; }

 private:
  const MatmulDesc desc_;
};

// One entry of the list. `fallback_reason`: why to try it only if the other entries have refused;
// null if there is no such reason.
struct Entry {
  const char* name;
  Isa needs;
  Capability (*capability)(const MatmulDesc&);
  std::unique_ptr<MatmulKernel> (*make)(const MatmulDesc&);
  const char* (*fallback_reason)(const MatmulDesc&);
  // Whether it is made for problems of this kind; null if for all.
  bool (*concerns)(const MatmulDesc&) = nullptr;
};

bool fits_second_level(const MatmulDesc& d) {
  const double floats = static_cast<double>(d.m) * static_cast<double>(d.k) +
                        static_cast<double>(d.k) * static_cast<double>(d.n) +
                        static_cast<double>(d.m) * static_cast<double>(d.n);
  return floats * sizeof(float) <= static_cast<double>(second_level_cache_bytes());
}

// These limits were measured; see tests/bench/cpu/matmul_bench.cpp.
constexpr int64_t kFewSummands = 128;
constexpr int64_t kManySummands = 512;
constexpr int64_t kFewRows = 96;
constexpr int64_t kVeryFewRows = 12;
constexpr int64_t kFewColumns = 12;
constexpr int64_t kManyColumns = 256;
constexpr int64_t kFewRowsOfDot = 16;  // the rows of a tile of AMX; not measured

// A few rows, for which weights are read once: lanes along k use all of a vector where lanes along
// the rows would use some of it, if there are enough summands to repay adding up the lanes.
bool reads_weights_once(const MatmulDesc& d) {
  // Other kernels do not take 16-bit weights as they lie.
  const bool cached = fits_second_level(d) && d.half_b == Half::none;
  const bool repaid = cached ? d.m <= 4 && d.k >= kManySummands : d.k >= kFewSummands;
  return repaid && stream_capability(d, Isa::plain).refusal.empty();
}

const char* direct_fallback_reason(const MatmulDesc& d) {
  if (fits_second_level(d) || d.n < kFewColumns || d.m < kVeryFewRows) return nullptr;
  // With few rows and B transposed, the lanes run over the rows and B is read only once.
  if (d.m < kFewRows && d.transpose_b) return nullptr;
  return "the operands exceed the second-level cache";
}

const char* blocked_fallback_reason(const MatmulDesc& d) {
  if (fits_second_level(d)) return "the operands fit the second-level cache unpacked";
  return d.n < kManyColumns ? "too few columns to repay packing A" : nullptr;
}

const char* pairs_fallback_reason(const MatmulDesc& d) {
  static const bool tiles = block_instructions().tiles;
  return tiles ? "the processor has AMX, which is faster" : blocked_fallback_reason(d);
}

const char* never_fallback(const MatmulDesc&) { return nullptr; }
Capability plain_capability(const MatmulDesc&) { return {}; }

constexpr Entry kEntries[] = {
    {"stream_avx512", Isa::avx512,
     [](const MatmulDesc& d) { return stream_capability(d, Isa::avx512); },
     [](const MatmulDesc& d) { return make_stream(d, Isa::avx512); }, never_fallback,
     reads_weights_once},
    {"jit_avx512", Isa::avx512, [](const MatmulDesc& d) { return jit_capability(d, Isa::avx512); },
     [](const MatmulDesc& d) { return make_jit(d, Isa::avx512); }, direct_fallback_reason},
    {"jit_avx512_blocked", Isa::avx512,
     [](const MatmulDesc& d) { return blocked_capability(d, Isa::avx512); },
     [](const MatmulDesc& d) { return make_blocked(d, Isa::avx512); }, blocked_fallback_reason},
    {"stream_avx2", Isa::avx2, [](const MatmulDesc& d) { return stream_capability(d, Isa::avx2); },
     [](const MatmulDesc& d) { return make_stream(d, Isa::avx2); }, never_fallback,
     reads_weights_once},
    {"jit_avx2", Isa::avx2, [](const MatmulDesc& d) { return jit_capability(d, Isa::avx2); },
     [](const MatmulDesc& d) { return make_jit(d, Isa::avx2); }, direct_fallback_reason},
    {"jit_avx2_blocked", Isa::avx2,
     [](const MatmulDesc& d) { return blocked_capability(d, Isa::avx2); },
     [](const MatmulDesc& d) { return make_blocked(d, Isa::avx2); }, blocked_fallback_reason},
    {"onednn", Isa::avx2, onednn_capability, make_onednn, never_fallback},
    {"plain", Isa::plain, plain_capability, make_plain, never_fallback},
};
// Not of the list, whose entries take f32.
constexpr Entry kDots[] = {
    {kBlockedBf16, Isa::avx512, blocked_bf16_capability, make_blocked_bf16, pairs_fallback_reason},
    {"onednn_bf16", Isa::avx512, onednn_bf16_capability, make_onednn, never_fallback},
};

struct Decision {
  KernelChoice choice;
  const Entry* entry = nullptr;
};

// Chooses the entry if it supports the problem; otherwise records the reason.
bool take(const Entry& entry, const MatmulDesc& desc, Isa max_isa, Decision& decision) {
  Capability capability;
  if (entry.needs > max_isa) {
    capability.refusal = "excluded by the caller";
  } else {
    capability = entry.capability(desc);
  }
  KernelChoice& choice = decision.choice;
  if (!capability.refusal.empty()) {
    choice.why +=
        (choice.why.empty() ? "" : "; ") + std::string(entry.name) + ": " + capability.refusal;
    return false;
  }
  choice.kernel = entry.name;
  choice.workspace_bytes = capability.workspace_bytes;
  decision.entry = &entry;
  return true;
}

Decision decide(const MatmulDesc& desc, Isa max_isa) {
  check(desc);
  if (desc.half_a != Half::none || desc.half_c != Half::none)
    refuse(desc, "A or C of 16 bits", "choose_dot() or choose_widening() for them");
  Decision decision;
  std::string& why = decision.choice.why;
  std::vector<const Entry*> fallbacks;
  for (const Entry& entry : kEntries) {
    if (entry.needs == Isa::plain) break;
    if (entry.concerns != nullptr && !entry.concerns(desc)) continue;
    const char* reason = entry.needs <= max_isa ? entry.fallback_reason(desc) : nullptr;
    if (reason != nullptr) {
      why += (why.empty() ? "" : "; ") + std::string(entry.name) + ": " + reason;
      fallbacks.push_back(&entry);
    } else if (take(entry, desc, max_isa, decision)) {
      return decision;
    }
  }
  for (const Entry* entry : fallbacks) {
    if (take(*entry, desc, max_isa, decision)) return decision;
  }
  take(std::end(kEntries)[-1], desc, max_isa, decision);
  return decision;
}

}  // namespace

MatmulKernel::~MatmulKernel() = default;

std::unique_ptr<MatmulKernel> make_plain(const MatmulDesc& desc) {
  return std::make_unique<PlainMatmul>(desc);
}

KernelChoice choose_matmul(const MatmulDesc& desc, Isa max_isa) {
  return decide(desc, max_isa).choice;
}

KernelChoice choose_widening(const MatmulDesc& desc) {
  check(desc);
  KernelChoice choice;
  const Isa isa = machine_isa();
  if (isa == Isa::plain) {
    choice.why = "no blocked kernel for this machine";
  } else if (const char* reason = blocked_fallback_reason(desc)) {
    choice.why = reason;
  } else {
    const Capability capability = blocked_capability(desc, isa);
    choice.why = capability.refusal;
    if (!choice.why.empty()) return choice;
    choice.kernel = isa == Isa::avx512 ? "jit_avx512_blocked" : "jit_avx2_blocked";
    choice.workspace_bytes = capability.workspace_bytes;
  }
  return choice;
}

KernelChoice choose_dot(const MatmulDesc& desc) {
  check(desc);
  KernelChoice choice;
  if (!has_bf16_products()) {
    choice.why =
        "products of bf16: the processor has no AVX512_BF16 or AMX, or "
        "PLAIT_BF16_PRODUCTS is 0";
    return choice;
  }
  if (desc.m < kFewRowsOfDot) {
    choice.why = "products of bf16: too few rows";
    return choice;
  }
  Decision decision;
  for (const Entry& entry : kDots) {
    std::string& why = decision.choice.why;
    if (const char* reason = entry.fallback_reason(desc))
      why += (why.empty() ? "" : "; ") + std::string(entry.name) + ": " + reason;
    else if (take(entry, desc, Isa::avx512, decision))
      break;
  }
  return decision.choice;
}

std::unique_ptr<MatmulKernel> make_matmul(const MatmulDesc& desc, Isa max_isa) {
  return decide(desc, max_isa).entry->make(desc);
}

std::unique_ptr<MatmulKernel> make_matmul(const MatmulDesc& desc, std::string_view kernel_name) {
  check(desc);
  std::string known;
  std::vector<const Entry*> entries;
  for (const Entry& entry : kEntries) entries.push_back(&entry);
  for (const Entry& entry : kDots) entries.push_back(&entry);
  for (const Entry* entry : entries) {
    if (entry->name == kernel_name) {
      const Capability capability = entry->capability(desc);
      if (capability.refusal.empty()) return entry->make(desc);
      refuse(desc, "kernel " + std::string(kernel_name) + " refused (" + capability.refusal + ")",
             "a kernel that takes the problem");
    }
    known += (known.empty() ? "" : ", ") + std::string(entry->name);
  }
  refuse(desc, "kernel " + std::string(kernel_name), "one of " + known);
}

KernelChoice choose_stream(const MatmulDesc& desc) {
  check(desc);
  const Isa isa = machine_isa();
  KernelChoice choice;
  if (isa == Isa::plain)
    choice.why = "the machine has no AVX2 with FMA";
  else if (!reads_weights_once(desc))
    choice.why = "takes a few rows and many summands, contiguous in both operands";
  else
    choice.kernel = isa == Isa::avx512 ? "stream_avx512" : "stream_avx2";
  return choice;
}

}  // namespace plait::cpu

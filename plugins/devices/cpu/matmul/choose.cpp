// The ranked list: generated code, oneDNN, plain loops; the first entry that takes the problem.

#include <limits>
#include <stdexcept>

#include "plugins/devices/cpu/matmul/candidates.hpp"
#include "plugins/devices/cpu/matmul/isa.hpp"
#include "plugins/devices/cpu/matmul/plain.hpp"

namespace plait::cpu {
namespace {

std::string shape_text(const MatmulDesc& d) {
  return std::to_string(d.batch) + " x (" + std::to_string(d.m) + "," + std::to_string(d.k) + ")*(" +
         std::to_string(d.k) + "," + std::to_string(d.n) + ")";
}

[[noreturn]] void refuse(const MatmulDesc& d, const std::string& found, const std::string& expected) {
  throw std::invalid_argument("[matmul] " + found + " in " + shape_text(d) + "; expected " + expected);
}

void check_product(const MatmulDesc& d, int64_t x, int64_t y) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / static_cast<int64_t>(sizeof(float));
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
  if (d.threads < 1) refuse(d, "threads = " + std::to_string(d.threads), "at least 1");
}

class PlainMatmul final : public MatmulKernel {
 public:
  explicit PlainMatmul(const MatmulDesc& desc) : desc_(desc) {}
  void run(const MatmulArgs& args) const override {
    matmul_plain(desc_, args.a, args.b, args.bias, args.c);
  }
  std::string_view name() const override { return "plain"; }
  size_t workspace_bytes() const override { return 0; }

 private:
  const MatmulDesc desc_;
};

/// Products above this many multiplications per item go to oneDNN when both sides of C are wide as well:
/// it packs both operands, which pays only there.
bool large(const MatmulDesc& d) {
  constexpr int64_t kWide = 256;
  constexpr int64_t kManyProducts = int64_t{1} << 26;
  return d.m >= kWide && d.n >= kWide && d.k >= kWide && d.m * d.n > kManyProducts / d.k;
}

}  // namespace

MatmulKernel::~MatmulKernel() = default;

std::unique_ptr<MatmulKernel> make_plain(const MatmulDesc& desc) {
  return std::make_unique<PlainMatmul>(desc);
}

Choice choose_matmul(const MatmulDesc& desc, Isa max_isa) {
  check(desc);
  Choice choice;
  const auto refuse_entry = [&choice](const char* kernel, const std::string& reason) {
    choice.why += (choice.why.empty() ? "" : "; ") + std::string(kernel) + ": " + reason;
  };
  const auto take = [&](const char* kernel, Isa needs, const Offer& offer) {
    if (needs > max_isa) {
      refuse_entry(kernel, "excluded by the caller");
    } else if (!offer.refusal.empty()) {
      refuse_entry(kernel, offer.refusal);
    } else {
      choice.kernel = kernel;
      choice.workspace_bytes = offer.workspace_bytes;
    }
    return !choice.kernel.empty();
  };
  const auto take_generated = [&] {
    return take("jit_avx512", Isa::avx512, offer_jit(desc, Isa::avx512)) ||
           take("jit_avx2", Isa::avx2, offer_jit(desc, Isa::avx2));
  };
  const auto take_onednn = [&] { return take("onednn", Isa::avx2, offer_onednn(desc)); };

  if (large(desc)) {
    refuse_entry("jit_*", "wide enough on both sides for oneDNN to pack both operands");
    if (take_onednn() || take_generated()) return choice;
  } else if (take_generated() || take_onednn()) {
    return choice;
  }
  choice.kernel = "plain";
  return choice;
}

namespace {

std::unique_ptr<MatmulKernel> make_named(const MatmulDesc& desc, std::string_view name) {
  if (name == "jit_avx512") return make_jit(desc, Isa::avx512);
  if (name == "jit_avx2") return make_jit(desc, Isa::avx2);
  if (name == "jit_avx512_blocked") return make_blocked(desc, Isa::avx512);
  if (name == "jit_avx2_blocked") return make_blocked(desc, Isa::avx2);
  if (name == "onednn") return make_onednn(desc);
  return make_plain(desc);
}

}  // namespace

std::unique_ptr<MatmulKernel> make_matmul(const MatmulDesc& desc, Isa max_isa) {
  return make_named(desc, choose_matmul(desc, max_isa).kernel);
}

std::unique_ptr<MatmulKernel> make_matmul(const MatmulDesc& desc, std::string_view kernel_name) {
  check(desc);
  Offer offer;
  if (kernel_name == "jit_avx512" || kernel_name == "jit_avx2") {
    offer = offer_jit(desc, kernel_name == "jit_avx512" ? Isa::avx512 : Isa::avx2);
  } else if (kernel_name == "jit_avx512_blocked" || kernel_name == "jit_avx2_blocked") {
    offer = offer_blocked(desc, kernel_name == "jit_avx512_blocked" ? Isa::avx512 : Isa::avx2);
  } else if (kernel_name == "onednn") {
    offer = offer_onednn(desc);
  } else if (kernel_name != "plain") {
    offer.refusal = "no such kernel; known are jit_avx512, jit_avx2, onednn, plain";
  }
  if (!offer.refusal.empty()) {
    refuse(desc, "kernel " + std::string(kernel_name) + " refused: " + offer.refusal, "another kernel");
  }
  return make_named(desc, kernel_name);
}

}  // namespace plait::cpu

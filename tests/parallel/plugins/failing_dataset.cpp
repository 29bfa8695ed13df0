// A dataset for tests: the first instance in a process that is opened with a code fails with that
// code when it is read; all others work normally.
#include <algorithm>
#include <atomic>
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr int64_t kSamples = 64, kMostCode = 63;
constexpr plait_option kOptions[] = {
    at_most(at_least(opt_int("code", "0", "PLAIT_ERR_*"), 0), kMostCode)};

std::atomic<bool> failed[kMostCode + 1];

class FailingDataset {
 public:
  FailingDataset(const Host&, const Options& o)
      : code_(static_cast<uint32_t>(o.integer("code"))), fails_(!failed[code_].exchange(true)) {}

  void info(plait_dataset_info& out) const {
    out.n_samples = kSamples;
    out.fields = fields_;
    out.n_fields = 2;
    out.fingerprint = 1;
  }

  void read(std::span<const int64_t> indices, void* const* outs) const {
    if (fails_) fail(code_, "[data.failing] no further");
    std::fill_n(static_cast<float*>(outs[0]), indices.size(), 1.0f);
    std::fill_n(static_cast<int32_t*>(outs[1]), indices.size(), 1);
  }

 private:
  const plait_field fields_[2] = {{"x", PLAIT_FIELD_INPUT, 0, Shape({1}).raw()},
                                  {"label", PLAIT_FIELD_TARGET, 0, Shape({}, PLAIT_I32).raw()}};
  const uint32_t code_;
  const bool fails_;
};

}  // namespace

PLAIT_PLUGIN("data-failing", "1.0.0", "Apache-2.0", "A dataset that fails, for tests") {
  static const auto failing = dataset<FailingDataset>("failing", "fails with a code", kOptions);
  host.add(failing);
}

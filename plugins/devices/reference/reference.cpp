// The device `reference`: every op in plain loops, in double, on one thread. Other devices are
// compared with it.
#include <cstdlib>

#include <plait/plugin.hpp>

#include "plugins/support/host_device.hpp"
#include "plugins/support/plain/plain.hpp"

namespace {

class Reference {
 public:
  static uint32_t threads(const plait::Options&) { return 1; }
  Reference(const plait::Host&, const plait::Options&) {}
  void info(plait_device_info& out) const {
    out.host_visible = 1;
    out.threads = 1;
    out.memory_bytes = 0;
    out.summary = "plain loops in double, 1 thread";
  }
  void* alloc(uint64_t bytes) {
    constexpr uint64_t kAlign = 64, kMost = uint64_t{1} << 40;  // no machine it runs on has a TiB
    const uint64_t size = (bytes / kAlign + 1) * kAlign;
    void* p = bytes < kMost ? std::aligned_alloc(kAlign, size) : nullptr;
    if (!p)
      plait::fail(PLAIT_ERR_MEMORY, "[reference] no memory for " + std::to_string(bytes) +
                                        " bytes; use a smaller batch or model");
    return __builtin_memset(p, 0, size);
  }
  void free(void* p) noexcept { std::free(p); }
  void enter() noexcept {}
};

}  // namespace

PLAIT_PLUGIN("device-reference", "0.1.0", "Apache-2.0", "Reference device: plain loops in double") {
  static const auto device = plait::support::HostDevice<Reference>::item(
      "reference",
      "plain loops in double on one thread: slow, and what other devices are compared with", {});
  static const auto kernels = plait::support::plain_kernels("reference");
  host.add(device);
  for (const auto& k : kernels) host.add(k);
}

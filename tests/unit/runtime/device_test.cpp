// What a device says of itself, and what of it is refused.
#include "engine/runtime/device.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/error_of.hpp"
#include "tests/unit/runtime/program_runner.hpp"

namespace {

using namespace plait;

double peak = 0;
plait_device_info said = {};

// The reference device under another name, with these figures.
plait_device_item item = {};
decltype(item.info) info_of_reference = nullptr;

constexpr plait_plugin kPlugin{sizeof kPlugin,
                               PLAIT_ABI_VERSION,
                               0,
                               "boasting",
                               "1.0.0",
                               "Apache-2.0",
                               "A device for tests",
                               [](const plait_host* host, const char*, void** state) {
                                 *state = nullptr;
                                 return host->add(host, PLAIT_KIND_DEVICE, &item);
                               },
                               [](void*) {}};

std::shared_ptr<const plugin::Registry> registry() {
  auto loaded = test::load_plugins({"device-reference"});
  item = loaded->device("reference");
  info_of_reference = item.info;
  item.struct_size = sizeof item;
  item.name = "boaster";
  item.peak_flops = [](plait_device*, uint32_t) { return peak; };
  item.info = [](const plait_device* device, plait_device_info* out) {
    plait_error* e = info_of_reference(device, out);
    out->memory_bytes = said.memory_bytes;
    out->threads = said.threads;
    return e;
  };
  loaded->load_static(kPlugin);
  return loaded;
}

}  // namespace

TEST_CASE("a peak is a number of operations per second, or 0 where it is not known") {
  const runtime::Device device(registry(), "boaster", {});
  for (const double good : {0.0, 1e15, 9.9e20}) {
    peak = good;
    CHECK(device.peak_flops(PLAIT_F32) == good);
  }
  for (const auto& [bad, text] :
       {std::pair{double{INFINITY}, "inf"}, {-1.0, "-1"}, {1e21, "1e+21"}}) {
    peak = bad;
    CHECK(test::error_of([&] { device.peak_flops(PLAIT_F32); }, PLAIT_ERR_PLUGIN) ==
          std::string("[plugin boasting] peak_flops() of device 'boaster' returned ") + text +
              ", expected a number of operations per second; tell its author");
  }
  peak = NAN;
  CHECK(test::error_of([&] { device.peak_flops(PLAIT_F32); }, PLAIT_ERR_PLUGIN)
            .find("returned nan") != std::string::npos);
}

TEST_CASE("memory and threads of a device: no more than any machine has") {
  const auto open = [all = registry()](uint64_t memory_bytes, uint32_t threads) {
    said.memory_bytes = memory_bytes;
    said.threads = threads;
    return test::error_of([&] { const runtime::Device device(all, "boaster", {}); });
  };
  constexpr uint64_t kBytes = uint64_t{1} << 52;
  constexpr uint32_t kThreads = 1u << 24;
  CHECK(open(kBytes, kThreads).code() == PLAIT_OK);
  CHECK(open(kBytes + 1, 0).full_text() ==
        "[plugin boasting] info() of device 'boaster' says it has 4503599627370497 bytes of "
        "memory, expected at most 4503599627370496; tell its author");
  CHECK(open(0, kThreads + 1).full_text() ==
        "[plugin boasting] info() of device 'boaster' says it has 16777217 threads, expected at "
        "most 16777216; tell its author");
}

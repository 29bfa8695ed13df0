// A machine with a driver and without NCCL.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include "tests/comm/ranks.hpp"
#include "tests/nccl/device.hpp"

TEST_SUITE("missing") {
  TEST_CASE("without NCCL the backend says what to install, and opens nothing") {
    using namespace comm_test;
    const auto& plugin = static_cast<const OnGpus&>(*plugins().front());
    plugin.with_options({}, [&](const plait_options& options) {
      const plait_comm_needs needs = {sizeof needs, 2, 2, 1000};
      plait_error* e = plugin.backend().probe(plugin.host(), &options, &needs);
      if (!e) {
        MESSAGE("not tried: this machine has NCCL");
        return;
      }
      const std::string text = abi_host::error_text(e);
      CAPTURE(text);
      CHECK(abi_host::error_code(e) == PLAIT_ERR_IO);
      CHECK(text.find("[nccl] NCCL is not installed: libnccl.so.2 not found (tried ") !=
            std::string::npos);
      CHECK(text.find("nvidia-nccl-cu13") != std::string::npos);
      abi_host::error_free(e);
      const auto outcomes = run_group(plugin, 2, [](Comm&) {});
      for (const Outcome& outcome : outcomes) CHECK(outcome.text == text);
      CHECK(live_errors() == 0);
    });
  }
}

// A limit that OpenMP would meet by ending the process.
#include "plugins/devices/cpu/thread_limit.hpp"

#include <doctest/doctest.h>

#include <plait/plugin.hpp>
#include <string>

#include "tests/unit/support/little_memory.hpp"

TEST_CASE("threads that cannot be started are an error that names the limits" *
          doctest::skip(!plait::test::kLimitsMemory)) {
  CHECK_NOTHROW(plait::cpu::check_thread_limit(1));
  CHECK_NOTHROW(plait::cpu::check_thread_limit(8));
  std::string text;
  {
    const plait::test::LittleMemory few;  // some 30 stacks
    try {
      plait::cpu::check_thread_limit(1000);
    } catch (const plait::Error& e) {
      CHECK(e.code() == PLAIT_ERR_IO);
      text = e.what();
    }
  }
  CAPTURE(text);
  CHECK(text.find("[cpu] cannot start 999 compute threads beside the calling one: ") == 0);
  CHECK(text.find("ulimit -u, ulimit -v") != std::string::npos);
  CHECK_NOTHROW(plait::cpu::check_thread_limit(8));
}

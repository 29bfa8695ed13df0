#include "engine/base/process.hpp"

#include <doctest/doctest.h>
#include <sys/utsname.h>
#include <unistd.h>

TEST_CASE("this machine has its name, and this process has not ended") {
  utsname system = {};
  REQUIRE(uname(&system) == 0);
  CHECK(plait::host_name() == (*system.nodename ? system.nodename : "localhost"));
  CHECK_FALSE(plait::process_ended(getpid()));
  CHECK_FALSE(plait::process_ended(1));     // also where it may not be signalled
  CHECK(plait::process_ended(2147483647));  // Linux gives smaller ids
}

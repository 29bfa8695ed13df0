// The window of a terminal where the system gives no more threads.
#include "bindings/cli/terminal/screen.hpp"

#include <doctest/doctest.h>
#include <signal.h>

#include <string>

#include "bindings/cli/context.hpp"
#include "tests/support/no_threads.hpp"

TEST_CASE("a window without a thread for signals is an error, and signals arrive as before") {
  std::string text;
  {
    const plait::test::NoThreads none;
    try {
      const plait::cli::Screen screen;
    } catch (const plait::cli::CliError& e) {
      CHECK(e.code() == plait::cli::kEnvironment);
      text = e.what();
    }
  }
  CHECK(text ==
        "[cli] the window cannot be watched: no thread can be started (limits: ulimit -u and -v): "
        "Resource temporarily unavailable; --once prints one screen");
  sigset_t now;
  sigprocmask(SIG_BLOCK, nullptr, &now);
  CHECK(sigismember(&now, SIGINT) == 0);
}

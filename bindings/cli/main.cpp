#include "bindings/cli/app.hpp"
#include "bindings/cli/crash.hpp"

#include <locale.h>

#include <cstdlib>

int main(int argc, char** argv) {
  // This process does nothing but train, so its compute threads may have cores of their own.
  setenv("PLAIT_BIND", "all", 0);
  setlocale(LC_CTYPE, "");  // whether the terminal takes UTF-8
  plait::cli::report_crashes();
  const int code = plait::cli::run_app(argc, argv);
  plait::cli::expect_exit();
  return code;
}

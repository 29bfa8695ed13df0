#include "bindings/cli/app.hpp"

#include <cstdlib>

int main(int argc, char** argv) {
  // This process does nothing but train, so its compute threads may have cores of their own.
  setenv("PLAIT_BIND", "all", 0);
  return plait::cli::run_app(argc, argv);
}

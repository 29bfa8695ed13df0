// comm [doctest options] <plugin>...
//
// Runs the cases on the backend of each plugin; by default, of all plugins of the build.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "tests/comm/host.hpp"

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).ends_with(".so")) paths.emplace_back(argv[i]);
  if (paths.empty()) paths = {COMM_PLUGINS};
  try {
    comm_test::load_plugins(paths);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "[comm] %s\n", e.what());
    return 2;
  }
  doctest::Context context(argc, argv);
  const int failed = context.run();
  comm_test::unload_plugins();
  return failed;
}

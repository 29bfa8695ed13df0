// Where a test program finds the plugins of its build.
#pragma once

#include <plait/base.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace plait::test {

// The folder in PLAIT_TEST_PLUGINS, or that of the build tree: it has the layout of an installed
// one, and tests are in its tests/bin.
inline std::filesystem::path plugin_folder() {
  if (const char* folder = std::getenv("PLAIT_TEST_PLUGINS")) return folder;
  const auto tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return tests.parent_path().parent_path() / "lib/plait" /
         ("plugins-" + std::to_string(PLAIT_ABI_VERSION));
}

}  // namespace plait::test

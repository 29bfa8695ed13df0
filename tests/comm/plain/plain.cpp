// Each argument names a plugin's file; errors are the test's own.
#include "tests/comm/host.hpp"

namespace comm_test {

std::unique_ptr<Plugin> make_plugin(const std::string& argument) {
  return std::make_unique<Plugin>(argument);
}

}  // namespace comm_test

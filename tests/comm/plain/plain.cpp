// Each argument is the file of a plugin; errors are created by the test.
#include "tests/comm/host.hpp"

namespace comm_test {

std::unique_ptr<Plugin> make_plugin(const std::string& argument) {
  return std::make_unique<Plugin>(argument);
}

}  // namespace comm_test

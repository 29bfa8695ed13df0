// The kernels that the devices of this tree add. One that is left out makes no error: its op is
// computed by a slower kernel. A new kernel gets a line in the list of its device.
#include <doctest/doctest.h>
#include <plait/device.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/unit/support/fake_host.hpp"

using namespace plait;

namespace {

// "OP KERNEL PRIORITY" of each kernel of a plugin, in the order of the alphabet.
std::string kernels_of(const std::string& plugin) {
  fake::Host host;
  host.load(plugin);
  std::string all;
  for (const std::string& name : host.names(PLAIT_KIND_KERNEL)) {
    const auto& k = host.item<plait_kernel_item>(PLAIT_KIND_KERNEL, name);
    CHECK(std::string("device-") + k.device == plugin);
    all += std::string(k.op) + " " + k.name + " " + std::to_string(k.priority) + "\n";
  }
  return all;
}

std::string listed(const std::string& plugin) {
  const std::string path =
      std::string(PLAIT_SOURCE_FOLDER) + "/tests/unit/kernel_items/" + plugin + ".txt";
  std::ifstream file(path);
  REQUIRE_MESSAGE(file, path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the kernels of a device are those of its list") {
  for (const char* plugin : {"device-cpu", "device-reference"}) {
    CAPTURE(plugin);
    CHECK(kernels_of(plugin) == listed(plugin));
  }
}

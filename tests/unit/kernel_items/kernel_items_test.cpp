// The kernels that the devices of this tree add. One that is left out makes no error: its op is
// computed by a slower kernel. A new kernel gets a line in the list of its device.
#include <doctest/doctest.h>
#include <plait/device.h>

#include <fstream>
#include <set>
#include <string>

#include "tests/unit/support/fake_host.hpp"

using namespace plait;

namespace {

using Lines = std::set<std::string>;

// "OP KERNEL PRIORITY" of each kernel of a plugin.
Lines kernels_of(const std::string& plugin) {
  fake::Host host;
  host.load(plugin);
  Lines all;
  for (const std::string& name : host.names(PLAIT_KIND_KERNEL)) {
    const auto& k = host.item<plait_kernel_item>(PLAIT_KIND_KERNEL, name);
    CHECK(std::string("device-") + k.device == plugin);
    all.insert(std::string(k.op) + " " + k.name + " " + std::to_string(k.priority));
  }
  return all;
}

Lines lines_of(const std::string& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file, path);
  Lines all;
  for (std::string line; std::getline(file, line);) CHECK_MESSAGE(all.insert(line).second, line);
  return all;
}

// Lines of `a` that `b` does not have.
std::string only_in(const Lines& a, const Lines& b) {
  std::string text;
  for (const std::string& line : a)
    if (!b.contains(line)) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("a device has exactly the kernels of its list") {
  for (const std::string plugin : {"device-cpu", "device-reference"}) {
    const std::string list = PLAIT_SOURCE_FOLDER "/tests/unit/kernel_items/" + plugin + ".txt";
    CAPTURE(list);
    const Lines added = kernels_of(plugin), listed = lines_of(list);
    CHECK_MESSAGE(only_in(listed, added) == "", "listed, and not added");
    CHECK_MESSAGE(only_in(added, listed) == "", "added, and not listed");
  }
}

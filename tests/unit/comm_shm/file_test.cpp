#include "plugins/comm/shm/file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <plait/plugin.hpp>
#include <string>

using plait::comm_shm::File;
using plait::kit::Fd;

namespace {

// A group of two ranks.
struct Group {
  const char* names[2] = {"rank 0", "rank 1"};
  const char* hosts[2] = {"h", "h"};
  plait::comm_support::Members members{"shm", setup()};
  plait_comm_setup setup() const {
    plait_comm_setup s{};
    s.struct_size = sizeof s;
    s.name = "data[0]";
    s.rank = 1;
    s.size = 2;
    s.ranks = names;
    s.hosts = hosts;
    return s;
  }
};

}  // namespace

TEST_CASE("a file is taken only with the key of the group") {
  const Group group;
  const File first(group.members), another(group.members);
  const auto copy = [&] { return Fd(fcntl(first.fd(), F_DUPFD_CLOEXEC, 0)); };
  const std::string key(first.key());
  CHECK(key.size() == plait::comm_shm::kKeyBytes);
  CHECK(key != another.key());
  CHECK(File(group.members, copy(), key).control().size == 2);
  for (const std::string& wrong : {std::string(another.key()), key.substr(1), std::string()})
    CHECK_THROWS_WITH_AS(File(group.members, copy(), wrong),
                         "[shm] group 'data[0]': the shared memory of rank 0 is not that of a "
                         "group of 2; run the same version on all ranks",
                         plait::Error);
}

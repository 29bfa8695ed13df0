// Somebody who is no member connects to the ports of a group that is coming about.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/comm/ranks.hpp"

namespace {

using namespace comm_test;

// Ports that something on this machine's loopback listens on.
std::set<uint16_t> listening_ports() {
  std::set<uint16_t> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state;
    words >> slot >> local >> remote >> state;
    if (state == "0A" && local.starts_with("0100007F:"))
      ports.insert(static_cast<uint16_t>(std::stoul(local.substr(9), nullptr, 16)));
  }
  return ports;
}

int connect_to(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

TEST_SUITE("failure") {
  TEST_CASE("strangers on the ports of a group that comes about") {
    for (const auto& plugin : plugins()) {
      if (plugin->item().reach < PLAIT_COMM_REACH_NETWORK) continue;
      for (const bool junk : {false, true}) {
        const std::set<uint16_t> before = listening_ports();
        std::atomic<bool> over{false};
        std::atomic<int> visits{0};
        std::thread stranger([&] {
          std::vector<int> held;
          while (!over && visits < 4)
            for (const uint16_t port : listening_ports()) {
              const int fd = before.contains(port) || visits == 4 ? -1 : connect_to(port);
              if (fd < 0) continue;
              ++visits;
              held.push_back(fd);
              const std::string text(256, 'x');
              if (junk) send(fd, text.data(), text.size(), MSG_NOSIGNAL);
            }
          while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          for (const int fd : held) close(fd);
        });
        const auto outcomes = run_group(*plugin, 3,
                                        [](Comm& comm) {
                                          std::vector<float> data(10, 1);
                                          Call(comm, desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 10,
                                                          data.data(), data.data(), PLAIT_COMM_SUM))
                                              .run();
                                          require(data[9] == 3, "wrong sum");
                                        },
                                        {"data[0]", 4, 20});
        over = true;
        stranger.join();
        INFO("a stranger came " << visits.load() << " times");
        CHECK_NOTHROW(expect_all_ok(outcomes));
      }
    }
  }
}

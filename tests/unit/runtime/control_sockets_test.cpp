// Calls on a connected socket: bytes, nothing for now, the end of the connection, a failure; and
// addresses.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/control/sockets.hpp"
#include "tests/unit/error_of.hpp"

using namespace plait::runtime::control;

namespace {

struct Pair {
  Fd a, b;
  Pair() {
    int both[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
    a = Fd(both[0]);
    b = Fd(both[1]);
  }
};

}  // namespace

TEST_CASE("a socket moves what it can, and nothing is no end") {
  const Pair pair;
  char buffer[8];
  IoResult moved = receive_some(pair.b.get(), buffer, sizeof buffer);
  CHECK(moved.done == 0);
  CHECK_FALSE(moved.closed);
  CHECK(moved.why.empty());
  CHECK(send_some(pair.a.get(), "abc").done == 3);
  moved = receive_some(pair.b.get(), buffer, sizeof buffer);
  CHECK(moved.done == 3);
  CHECK_FALSE(moved.closed);
  CHECK(std::string(buffer, 3) == "abc");
  const std::string much(1 << 16, 'x');
  do {
    moved = send_some(pair.a.get(), much);
    REQUIRE_FALSE(moved.closed);
  } while (moved.done > 0);  // until the socket is full
  CHECK(moved.why.empty());
}

TEST_CASE(
    "a connection sends at once, and is lost when the peer confirms nothing for its timeout") {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(fd);
  const auto option = [&](int name) {
    unsigned value = 0;
    socklen_t size = sizeof value;
    REQUIRE(getsockopt(fd.get(), IPPROTO_TCP, name, &value, &size) == 0);
    return value;
  };
  configure_socket(fd.get(), 2.5);
  CHECK(option(TCP_NODELAY) == 1);
  CHECK(option(TCP_USER_TIMEOUT) == 2500);
  configure_socket(fd.get(), 0.1);
  CHECK(option(TCP_USER_TIMEOUT) == 1000);
  configure_socket(fd.get(), 1e9);
  CHECK(option(TCP_USER_TIMEOUT) == 3'600'000);
}

TEST_CASE("the end of a connection is told to both directions, a failure with its reason") {
  Pair pair;
  pair.b = Fd();
  IoResult moved = send_some(pair.a.get(), "abc");
  CHECK(moved.done == 0);
  CHECK(moved.closed);
  CHECK(moved.why == "its connection was closed");
  char buffer[8];
  moved = receive_some(pair.a.get(), buffer, sizeof buffer);
  CHECK(moved.closed);
  CHECK(moved.why == "its connection was closed");
  moved = send_some(-1, "abc");
  CHECK(moved.closed);
  CHECK(moved.why == "its connection failed (Bad file descriptor)");
  moved = receive_some(-1, buffer, sizeof buffer);
  CHECK(moved.closed);
  CHECK(moved.why == "its connection failed (Bad file descriptor)");
}

TEST_CASE("addresses are written with their port, and those of version 6 in brackets") {
  for (const auto& [host, text] :
       {std::pair{"10.1.2.3", "10.1.2.3:29400"}, {"::1", "[::1]:29400"}}) {
    const std::vector<Address> all = resolve(host, 29400);
    REQUIRE(all.size() == 1);
    CHECK(host_of(all[0]) == host);
    CHECK(port_of(all[0]) == 29400);
    CHECK(text_of(all[0]) == text);
    CHECK(host_and_port(host, 29400) == text);
  }
  CHECK(host_and_port("a.example", 80) == "a.example:80");
  CHECK(host_of(Address{}) == "somewhere");
}

TEST_CASE("a host that has no address is named") {
  const std::string name(300, 'a');  // too long for one, which no service is asked
  CHECK(plait::test::error_of([&] { resolve(name, 1); }, PLAIT_ERR_IO)
            .starts_with("[control] host '" + name + "' has no address: "));
}

// Rank 0 of a job on several machines may be told to listen at loopback by who forwards its port.
TEST_CASE("loopback that was given as such stays, on one machine and on several") {
  for (const std::string host : {"127.0.0.1", "127.9.8.7", "::1", "localhost"})
    for (const bool one_machine : {true, false}) {
      CAPTURE(host);
      const std::vector<Address> all = resolve_rendezvous_host(host, 29400, one_machine);
      REQUIRE_FALSE(all.empty());
      for (const Address& address : all) {
        const std::string found = host_of(address);
        CHECK((found == host || (host == "localhost" && (found == "127.0.0.1" || found == "::1"))));
        CHECK(port_of(address) == 29400);
      }
    }
}

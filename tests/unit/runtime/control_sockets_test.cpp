// Calls on a connected socket: bytes, nothing for now, the end of the connection, a failure.
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <string>

#include "engine/runtime/control/sockets.hpp"

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

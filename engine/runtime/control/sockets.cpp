#include "engine/runtime/control/sockets.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/error.hpp"

namespace plait::runtime::control {
namespace {

constexpr int kBacklog = 1024;

std::string reason(int number) {
  char buffer[128] = "";
  return strerror_r(number, buffer, sizeof buffer);
}

// The reason for the end of a connection, for "rank 2 is lost: ...".
std::string ended(int number) {
  if (number == 0 || number == ECONNRESET || number == EPIPE) return "its connection was closed";
  return "its connection failed (" + reason(number) + ")";
}

bool later(int number) { return number == EAGAIN || number == EWOULDBLOCK || number == EINTR; }

}  // namespace

Clock::duration to_duration(double seconds) {
  const auto wait = std::chrono::duration<double>(std::clamp(seconds, 0.0, 3.2e7));
  return std::chrono::duration_cast<Clock::duration>(wait);
}

uint64_t milliseconds(double seconds) {
  return static_cast<uint64_t>(
      std::chrono::ceil<std::chrono::milliseconds>(to_duration(seconds)).count());
}

int poll_ms(Time until, Time now) {
  if (until <= now) return 0;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::min<int64_t>(ms, 3'600'000));
}

Fd listen_at(const std::vector<Address>& addresses) {
  std::string tried;
  for (const Address& address : addresses) {
    Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (fd && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd.get(), address.raw(), address.size) == 0 && listen(fd.get(), kBacklog) == 0)
      return fd;
    tried += (tried.empty() ? "" : ", ") + text_of(address) + " (" + reason(errno) + ")";
  }
  fail(PLAIT_ERR_IO, "[control] rank 0 cannot listen at " + tried +
                         "; check which process uses the port, or use another rendezvous");
}

Address address_of_listener(int fd) {
  Address address;
  address.size = sizeof address.storage;
  int listens = 0;
  socklen_t size = sizeof listens;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens ||
      getsockname(fd, address.raw(), &address.size) != 0)
    fail_invalid("[control] descriptor " + std::to_string(fd) + " is not a listening socket");
  if (address.storage.ss_family == AF_INET) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
    if (v4.sin_addr.s_addr == htonl(INADDR_ANY)) v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else if (address.storage.ss_family == AF_INET6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
    if (IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) v6.sin6_addr = in6addr_loopback;
  } else {
    fail_invalid("[control] descriptor " + std::to_string(fd) + " is not a TCP socket");
  }
  return address;
}

Address address_of_peer(int fd) {
  Address address;
  address.size = sizeof address.storage;
  if (getpeername(fd, address.raw(), &address.size) != 0) address.size = 0;
  return address;
}

Fd connect_to(const Address& address, Time deadline) {
  Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail_io("cannot create a socket", errno);
  int error = connect(fd.get(), address.raw(), address.size) == 0 ? 0 : errno;
  while (error == EINPROGRESS || error == EINTR) {
    pollfd one{fd.get(), POLLOUT, 0};
    const int ready = poll(&one, 1, poll_ms(deadline, Clock::now()));
    if (ready < 0 && errno != EINTR) fail_io("poll", errno);
    if (ready == 0 && Clock::now() >= deadline) error = ETIMEDOUT;
    if (ready <= 0) continue;
    socklen_t size = sizeof error;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  }
  if (error != 0) fail(PLAIT_ERR_IO, reason(error));
  return fd;
}

void configure_socket(int fd, double timeout) {
  const int on = 1;
  const auto timeout_ms = static_cast<unsigned>(std::clamp(timeout, 1.0, 3600.0) * 1000);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

IoResult send_some(int fd, std::string_view bytes) {
  const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n >= 0) return {static_cast<size_t>(n), false, ""};
  return later(errno) ? IoResult{} : IoResult{0, true, ended(errno)};
}

IoResult receive_some(int fd, char* buffer, size_t capacity) {
  const ssize_t n = recv(fd, buffer, capacity, MSG_DONTWAIT);
  if (n > 0) return {static_cast<size_t>(n), false, ""};
  if (n == 0) return {0, true, ended(0)};
  return later(errno) ? IoResult{} : IoResult{0, true, ended(errno)};
}

Waker::Waker() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) fail_io("[control] cannot create an eventfd", errno);
}

void Waker::wake() const noexcept {
  const uint64_t one = 1;
  // Fails only if the counter is full: the thread is woken anyway.
  [[maybe_unused]] const ssize_t n = write(fd_.get(), &one, sizeof one);
}

void Waker::clear() const noexcept {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = read(fd_.get(), &count, sizeof count);
}

}  // namespace plait::runtime::control

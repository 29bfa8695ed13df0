#include "plugins/comm/gloo/sockets.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gloo/transport/tcp/address.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <plait/plugin.hpp>
#include <system_error>

#include "kit/hmac.hpp"

namespace plait::comm_gloo {

namespace tcp = ::gloo::transport::tcp;

void fail_io(const std::string& what) {
  fail(PLAIT_ERR_IO, "[gloo] " + what + ": " + std::strerror(errno));
}

std::string random_bytes(size_t n) {
  try {
    return kit::random_bytes(n);
  } catch (const std::system_error& e) {
    fail(PLAIT_ERR_IO, std::string("[gloo] the system provides no random numbers: ") + e.what());
  }
}

namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
};

std::string text_of(const Address& address) {
  char text[NI_MAXHOST];
  if (getnameinfo(address.raw(), address.size, text, sizeof text, nullptr, 0, NI_NUMERICHOST))
    fail(PLAIT_ERR_IO, "[gloo] cannot format an address of this machine");
  return text;
}

Address resolve(const std::string& host, const char* port = "9") {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int rc = getaddrinfo(host.c_str(), port, &hints, &found);
  if (rc != 0)
    fail(PLAIT_ERR_CONFIG, "[gloo] host '" + host + "' has no address: " + gai_strerror(rc) +
                               "; use host names that every machine can resolve");
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all)) fail_io("cannot list the network interfaces");
  std::string known, found;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* one = all; one; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != family) continue;
      known += (known.empty() ? "" : ", ") + std::string(one->ifa_name);
      if (name != one->ifa_name || !found.empty()) continue;
      Address address;
      address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&address.storage, one->ifa_addr, address.size);
      found = text_of(address);
    }
  freeifaddrs(all);
  if (found.empty())
    fail(PLAIT_ERR_CONFIG, "[gloo] interface '" + name +
                               "' does not exist or has no address; known are: " + known +
                               "; correct 'interface'");
  return found;
}

// No packet is sent: connecting a datagram socket only looks up the route.
std::string address_of_route(const std::string& host) {
  const Address to = resolve(host);
  const Fd probe(socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Address own;
  own.size = sizeof own.storage;
  if (!probe || connect(probe.get(), to.raw(), to.size) ||
      getsockname(probe.get(), own.raw(), &own.size))
    fail_io("found no route to host '" + host + "'");
  return text_of(own);
}

}  // namespace

Clock::time_point after(double seconds) {
  const auto wait = std::chrono::duration<double>(std::clamp(seconds, 0.0, 3.2e7));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

std::string listen_address(const std::string& interface, const std::string& own_host,
                           const std::vector<std::string>& hosts) {
  if (!interface.empty()) return address_of_interface(interface);
  for (const std::string& host : hosts)
    if (host != own_host) return address_of_route(host);
  return "127.0.0.1";
}

namespace {

std::string bytes_of(const Address& address) {
  return {reinterpret_cast<const char*>(&address.storage), address.size};
}
Address address_of(std::string_view bytes) {
  Address address;
  if (bytes.size() > sizeof address.storage) fail(PLAIT_ERR_PEER, "[gloo] an address is too long");
  std::memcpy(&address.storage, bytes.data(), bytes.size());
  address.size = static_cast<socklen_t>(bytes.size());
  return address;
}
// getsockname() or getpeername(); empty if the descriptor has no such address.
std::string name_of(int fd, int (*name)(int, sockaddr*, socklen_t*)) {
  Address address;
  address.size = sizeof address.storage;
  return name(fd, address.raw(), &address.size) == 0 ? bytes_of(address) : "";
}

std::vector<int> open_descriptors() {
  std::vector<int> all;
  DIR* folder = opendir("/proc/self/fd");
  if (!folder) fail_io("cannot list the open descriptors");
  while (const dirent* entry = readdir(folder))
    if (const int fd = std::atoi(entry->d_name); fd > 2 && fd != dirfd(folder)) all.push_back(fd);
  closedir(folder);
  return all;
}

bool listens(int fd) {
  int on = 0;
  socklen_t size = sizeof on;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &size) == 0 && on;
}

Fd stream_socket(int family) {
  Fd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail_io("cannot make a socket");
  return fd;
}

// The connection is gone, not the socket that listens (accept(2), "Error handling").
bool concerns_one_connection(int error) {
  constexpr int kErrors[] = {EAGAIN,       EINTR,       ECONNABORTED, EPERM,
                             EPROTO,       ENETDOWN,    EHOSTDOWN,    ENETUNREACH,
                             EHOSTUNREACH, ENOPROTOOPT, EOPNOTSUPP,   ENONET};
  return std::find(std::begin(kErrors), std::end(kErrors), error) != std::end(kErrors);
}

}  // namespace

Listener listen_on(const std::string& address) {
  const Address own = resolve(address, "0");
  Listener listener{stream_socket(own.storage.ss_family), ""};
  if (bind(listener.socket.get(), own.raw(), own.size) || listen(listener.socket.get(), SOMAXCONN))
    fail_io("cannot listen on " + address);
  listener.address = name_of(listener.socket.get(), getsockname);
  return listener;
}

Fd accept_connection(int listener) {
  Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd && !concerns_one_connection(errno)) fail_io("cannot accept a connection");
  return fd;
}

Fd start_connecting(const std::string& address, int& error) {
  const Address to = address_of(address);
  Fd fd = stream_socket(to.storage.ss_family);
  error = connect(fd.get(), to.raw(), to.size) == 0 || errno == EINPROGRESS ? 0 : errno;
  return fd;
}

int connect_error(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) ? errno : error;
}

void tune(int socket, double timeout) {
  const int on = 1;
  const auto patience = static_cast<unsigned>(std::clamp(timeout, 1.0, 3600.0) * 1000);
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);  // milliseconds
}

std::vector<char> gloo_address(const std::string& address) {
  return tcp::Address(address_of(address).storage).bytes();
}

std::vector<int> find_sockets(const std::vector<std::vector<char>>& own, const std::string& other) {
  std::vector<std::string> addresses;
  for (const auto& one : own)
    addresses.push_back(
        one.empty() ? "" : bytes_of({tcp::Address(one).getSockaddr(), sizeof(sockaddr_in)}));
  std::vector<int> found(own.size(), -1);
  for (const int fd : open_descriptors()) {
    const std::string name = name_of(fd, getsockname);
    if (name.empty() || name_of(fd, getpeername) != other || listens(fd) != other.empty()) continue;
    const auto at = std::find(addresses.begin(), addresses.end(), name);
    if (at != addresses.end()) found[static_cast<size_t>(at - addresses.begin())] = fd;
  }
  return found;
}

std::string text_of_peer(int fd) {
  Address peer;
  peer.size = sizeof peer.storage;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getpeername(fd, peer.raw(), &peer.size) ||
      getnameinfo(peer.raw(), peer.size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV))
    return "";
  return std::string(host) + ":" + port;
}

bool peer_closed(int fd) {
  pollfd one{fd, POLLRDHUP, 0};
  if (poll(&one, 1, 0) <= 0 || !(one.revents & (POLLRDHUP | POLLHUP | POLLERR))) return false;
  int unread = 0;
  return ioctl(fd, FIONREAD, &unread) != 0 || unread == 0;
}

}  // namespace plait::comm_gloo

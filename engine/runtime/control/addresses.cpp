// Host names and addresses of machines.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "engine/base/error.hpp"
#include "engine/base/process.hpp"
#include "engine/runtime/control/sockets.hpp"

namespace plait::runtime::control {
namespace {

bool is_loopback(const Address& address) {
  if (address.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool is_link_local(const Address& address) {
  if (address.storage.ss_family != AF_INET6) return false;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
  return IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr);
}

bool is_number(const std::string& host) {
  in6_addr v6;
  in_addr v4;
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 || inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

std::vector<Address> addresses_of_interfaces() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) fail_io("[control] cannot list the network interfaces", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, freeifaddrs);
  std::vector<Address> found;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* one = all; one; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != family || !(one->ifa_flags & IFF_UP))
        continue;
      Address address;
      address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&address.storage, one->ifa_addr, address.size);
      found.push_back(address);
    }
  return found;
}

}  // namespace

std::string host_of(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.size == 0) return "somewhere";
  if (address.storage.ss_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr, text,
              sizeof text);
  else
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr, text,
              sizeof text);
  return text;
}

uint16_t port_of(const Address& address) {
  return address.storage.ss_family == AF_INET
             ? ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port)
             : ntohs(reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_port);
}

std::string host_and_port(const std::string& host, uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string text_of(const Address& address) {
  return host_and_port(host_of(address), port_of(address));
}

std::vector<Address> resolve(const std::string& host, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  // For systems whose host table does not contain it (RFC 6761, 6.3).
  if (rc != 0 && host == "localhost") return resolve("127.0.0.1", port);
  if (rc != 0)
    fail(PLAIT_ERR_IO, "[control] host '" + host + "' has no address: " +
                           (rc == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(rc)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<Address> all;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    Address address;
    address.size = one->ai_addrlen;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    all.push_back(address);
  }
  return all;
}

std::vector<Address> resolve_rendezvous_host(const std::string& host, uint16_t port,
                                             bool one_machine) {
  std::vector<Address> all = resolve(host, port);
  if (one_machine || is_number(host) || host == "localhost" ||
      !std::all_of(all.begin(), all.end(), is_loopback))
    return all;
  Address own = address_of_machine();
  if (own.storage.ss_family == AF_INET)
    reinterpret_cast<sockaddr_in&>(own.storage).sin_port = htons(port);
  else
    reinterpret_cast<sockaddr_in6&>(own.storage).sin6_port = htons(port);
  return {own};
}

Address address_of_machine() {
  std::vector<Address> all;
  try {
    all = resolve(host_name(), 0);
  } catch (const Error&) {
    // The name cannot be resolved: fall back to the interfaces.
  }
  // Many systems map their own name to loopback (Debian: 127.0.1.1), where other machines cannot
  // reach this one.
  for (const bool own_name : {true, false}) {
    if (!own_name) all = addresses_of_interfaces();
    for (const Address& address : all)
      if (!is_loopback(address) && !is_link_local(address)) return address;
  }
  fail(PLAIT_ERR_IO,
       "[control] this machine (" + host_name() +
           ") has only a loopback address, at which ranks on other machines "
           "cannot reach rank 0; configure a network, or use HOST:PORT as the rendezvous");
}

}  // namespace plait::runtime::control

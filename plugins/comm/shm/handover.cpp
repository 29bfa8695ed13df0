#include "plugins/comm/shm/handover.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <plait/plugin.hpp>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "kit/hmac.hpp"
#include "plugins/comm/shm/process_monitor.hpp"

namespace plait::comm_shm {
namespace {

using std::chrono::milliseconds;

constexpr size_t kKeyBytes = 32;  // as hexadecimal text
constexpr milliseconds kSlice(10);
// A member sends its key when it has connected, so this is far more than it takes.
constexpr milliseconds kKeyTimeout(1000);

std::string random_text() {
  std::string text;
  for (const char byte : kit::random_bytes(kKeyBytes / 2))
    for (const int shift : {4, 0})
      text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> shift & 15];
  return text;
}

struct Address {
  sockaddr_un text{};
  socklen_t size;
  // An abstract name: the first byte is 0, and no file belongs to it.
  explicit Address(const std::string& name) {
    text.sun_family = AF_UNIX;
    const size_t bytes = std::min(name.size(), sizeof text.sun_path - 1);
    std::memcpy(text.sun_path + 1, name.data(), bytes);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&text); }
};

kit::Fd new_socket() { return kit::Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// Whether there is something to read or accept, or an end.
bool ready(int fd, milliseconds most) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, static_cast<int>(most.count())) > 0;
}

bool is_of_this_user(int socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

struct Invitation {
  std::string name, key;
  int64_t process = 0;
  uint64_t pids = 0;  // the PID name space of that process; 0: not known
  int fd = -1;
};

std::optional<Invitation> read_invitation(const std::string& text) {
  Invitation i;
  std::istringstream words(text);
  words >> i.name >> i.key >> i.process >> i.pids >> i.fd;
  if (!words || i.fd < 0) return std::nullopt;
  return i;
}

// The message that carries one descriptor and one byte.
struct Parcel {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  Parcel() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
  }
};

bool send_descriptor(int socket, int fd) {
  Parcel p;
  cmsghdr* const head = CMSG_FIRSTHDR(&p.message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  return sendmsg(socket, &p.message, MSG_NOSIGNAL) == 1;
}

// Invalid: the other end has closed, or sent something else.
kit::Fd receive_descriptor(int socket) {
  Parcel p;
  if (recvmsg(socket, &p.message, MSG_CMSG_CLOEXEC) != 1) return kit::Fd();
  const cmsghdr* const head = CMSG_FIRSTHDR(&p.message);
  if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
      head->cmsg_len != CMSG_LEN(sizeof(int)))
    return kit::Fd();
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return kit::Fd(fd);
}

kit::Fd ask(const kit::Fd& connection, const Invitation& to,
            const std::function<void()>& keep_waiting) {
  if (!is_of_this_user(connection.get()))
    throw std::runtime_error("its socket belongs to another user; run all ranks as one user");
  const ssize_t n = send(connection.get(), to.key.data(), to.key.size(), MSG_NOSIGNAL);
  if (n == static_cast<ssize_t>(to.key.size())) {
    while (!ready(connection.get(), kSlice)) keep_waiting();
    if (kit::Fd file = receive_descriptor(connection.get())) return file;
  }
  throw std::runtime_error("it has failed");
}

}  // namespace

FileServer::FileServer(int fd) : fd_(fd), key_(random_text()), socket_(new_socket()) {
  const std::string name = "plait-" + random_text();
  const Address address(name);
  if (!socket_ || bind(socket_.get(), address.raw(), address.size) != 0 ||
      listen(socket_.get(), SOMAXCONN) != 0)
    fail(PLAIT_ERR_IO, std::string("[shm] no socket for the other ranks can be made: ") +
                           std::strerror(errno) + "; choose another topology.backend");
  invitation_ = name + " " + key_ + " " + std::to_string(getpid()) + " " +
                std::to_string(pid_namespace()) + " " + std::to_string(fd);
}

void FileServer::serve(milliseconds most) {
  for (; ready(socket_.get(), most); most = milliseconds(0)) {
    const kit::Fd connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) return;  // it has given up already
    if (hand_over(connection.get())) ++served_;
  }
}

bool FileServer::hand_over(int connection) const {
  if (!is_of_this_user(connection)) return false;
  std::string key(kKeyBytes, '\0');
  const auto end = std::chrono::steady_clock::now() + kKeyTimeout;
  for (size_t n = 0; n < key.size();) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !ready(connection, left)) return false;
    const ssize_t got = recv(connection, key.data() + n, key.size() - n, 0);
    if (got <= 0) return false;
    n += static_cast<size_t>(got);
  }
  return kit::equal_constant_time(key, key_) && send_descriptor(connection, fd_);
}

kit::Fd accept_file(const std::string& text, const std::function<void()>& keep_waiting) {
  const auto invitation = read_invitation(text);
  if (!invitation) throw std::runtime_error("it has sent something else; run the same version");
  const kit::Fd connection = new_socket();
  if (!connection)
    throw std::runtime_error(std::string("no socket can be made: ") + std::strerror(errno));
  const Address address(invitation->name);
  if (connect(connection.get(), address.raw(), address.size) == 0)
    return ask(connection, *invitation, keep_waiting);
  const int error = errno;
  if (invitation->pids != 0 && invitation->pids == pid_namespace()) {
    const std::string path =
        "/proc/" + std::to_string(invitation->process) + "/fd/" + std::to_string(invitation->fd);
    if (kit::Fd file(open(path.c_str(), O_RDWR | O_CLOEXEC)); file) return file;
  }
  throw std::runtime_error(
      std::string(std::strerror(error)) +
      "; that rank has failed, or has another network and other process numbers (containers share "
      "them with --network container:NAME or --pid container:NAME)");
}

}  // namespace plait::comm_shm

#include "plugins/comm/shm/handover.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <plait/plugin.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "kit/hex.hpp"
#include "kit/hmac.hpp"
#include "plugins/comm/shm/process_monitor.hpp"

namespace plait::comm_shm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice(10);
// Beyond that the oldest is dropped; a member connects again. Far below the usual limit of
// descriptors.
constexpr size_t kMostConnections = 256;

// What rank 0 does not survive.
[[noreturn]] void fail_serving(const char* what, int error) {
  std::string text = std::string("[shm] ") + what + ": " + std::strerror(error);
  if (error == EMFILE) text += "; raise the number of open files (ulimit -n)";
  if (error == ENFILE) text += "; raise the number of open files of the machine (fs.file-max)";
  fail(PLAIT_ERR_IO, text + (error == EMFILE || error == ENFILE ? ", or" : ";") +
                         " choose another topology.backend");
}

std::string reason(int error) {
  std::string text = std::strerror(error);
  if (error == EMFILE) text += " (raise the number of open files with ulimit -n)";
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

kit::Fd new_socket(int flags) {
  return kit::Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

// Whether there is something to read, or an end; a signal ends the wait.
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
  uint64_t pids = 0;  // the PID namespace of that process; 0: not known
  int fd = -1;
};

std::optional<Invitation> read_invitation(const std::string& text) {
  Invitation i;
  std::istringstream words(text);
  words >> i.name >> i.key >> i.process >> i.pids >> i.fd;
  if (!words || i.fd < 0) return std::nullopt;
  return i;
}

// One byte, with a control message that carries one descriptor.
struct DescriptorMessage {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  DescriptorMessage() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
  }
};

// False: the other end has closed.
bool send_descriptor(int socket, int fd) {
  DescriptorMessage m;
  cmsghdr* const head = CMSG_FIRSTHDR(&m.message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  ssize_t n;
  do n = sendmsg(socket, &m.message, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  if (n < 0 && errno != EPIPE && errno != ECONNRESET)
    fail_serving("the shared memory cannot be given to another rank", errno);
  return n == 1;
}

// Invalid: the other end has closed.
kit::Fd receive_descriptor(int socket) {
  DescriptorMessage m;
  ssize_t n;
  do n = recvmsg(socket, &m.message, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n != 1) return kit::Fd();
  if (m.message.msg_flags & MSG_CTRUNC)
    throw std::runtime_error(
        "this process has no descriptor left for it; raise the number of open "
        "files (ulimit -n)");
  const cmsghdr* const head = CMSG_FIRSTHDR(&m.message);
  if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS ||
      head->cmsg_len != CMSG_LEN(sizeof(int)))
    throw std::runtime_error("that rank has sent something else; run the same version");
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return kit::Fd(fd);
}

// 0, or the error. EAGAIN: the queue of the other end stayed full for a slice.
int connect_to(int socket, const Address& address) {
  // poll() cannot wait until the other end has room for a connection; connect() can.
  const timeval slice{0, std::chrono::microseconds(kSlice).count()};
  if (setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof slice) != 0) return errno;
  return connect(socket, address.raw(), address.size) == 0 ? 0 : errno;
}

// Invalid: the connection has ended.
kit::Fd ask(int connection, const std::string& key, const std::function<void()>& keep_waiting) {
  if (!is_of_this_user(connection))
    throw std::runtime_error("its socket belongs to another user; run all ranks as one user");
  const ssize_t n = send(connection, key.data(), key.size(), MSG_NOSIGNAL);
  if (n != static_cast<ssize_t>(key.size())) return kit::Fd();
  while (!ready(connection, kSlice)) keep_waiting();
  return receive_descriptor(connection);
}

// The file among the descriptors of rank 0's process.
kit::Fd open_in_proc(const Invitation& from, std::string& error) {
  if (from.pids == 0 || from.pids != pid_namespace()) {
    error = "it is in another PID namespace";
    return kit::Fd();
  }
  const std::string path =
      "/proc/" + std::to_string(from.process) + "/fd/" + std::to_string(from.fd);
  // That number may be another file, such as a device, by now: looked at before it is opened.
  std::array<char, 64> target;
  const ssize_t n = readlink(path.c_str(), target.data(), target.size());
  if (n >= 0 &&
      !std::string_view(target.data(), static_cast<size_t>(n)).starts_with("/memfd:plait")) {
    error = path + " is no longer the shared memory";
    return kit::Fd();
  }
  kit::Fd file(n < 0 ? -1 : open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) error = path + ": " + reason(errno);
  return file;
}

}  // namespace

FileServer::FileServer(int fd, std::string key)
    : fd_(fd), key_(std::move(key)), socket_(new_socket(SOCK_NONBLOCK)) {
  const std::string name = "plait-" + kit::hex(kit::random_bytes(16));
  const Address address(name);
  if (!socket_ || bind(socket_.get(), address.raw(), address.size) != 0 ||
      listen(socket_.get(), SOMAXCONN) != 0)
    fail_serving("no socket for the other ranks can be made", errno);
  invitation_ = name + " " + key_ + " " + std::to_string(getpid()) + " " +
                std::to_string(pid_namespace()) + " " + std::to_string(fd);
}

void FileServer::serve(milliseconds most) {
  std::vector<pollfd> waited = {{socket_.get(), POLLIN, 0}};
  for (const Connection& c : connections_) waited.push_back({c.socket.get(), POLLIN, 0});
  if (poll(waited.data(), waited.size(), static_cast<int>(most.count())) < 0) {
    if (errno == EINTR) return;
    fail_serving("cannot wait for the other ranks", errno);
  }
  std::vector<Connection> open;
  for (size_t i = 0; i < connections_.size(); ++i)
    if (waited[i + 1].revents == 0 || !is_done(connections_[i]))
      open.push_back(std::move(connections_[i]));
  connections_ = std::move(open);
  if (waited[0].revents != 0) accept_one();
}

void FileServer::accept_one() {
  kit::Fd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) return;
    fail_serving("no connection of another rank can be accepted", errno);
  }
  if (!is_of_this_user(socket.get())) return;
  if (connections_.size() == kMostConnections) connections_.erase(connections_.begin());
  connections_.push_back({std::move(socket), {}});
}

// Whether the connection can be closed: it has the file, has ended, or has sent another key.
bool FileServer::is_done(Connection& c) {
  std::array<char, 128> text;
  const size_t missing = std::min(key_.size() - c.received.size(), text.size());
  const ssize_t n = recv(c.socket.get(), text.data(), missing, 0);
  if (n < 0) return errno != EINTR && errno != EAGAIN;
  if (n == 0) return true;
  c.received.append(text.data(), static_cast<size_t>(n));
  if (c.received.size() < key_.size()) return false;
  if (kit::equal_constant_time(c.received, key_) && send_descriptor(c.socket.get(), fd_)) ++served_;
  return true;
}

ReceivedFile accept_file(const std::string& text, const std::function<void()>& keep_waiting) {
  const auto invitation = read_invitation(text);
  if (!invitation) throw std::runtime_error("it has sent something else; run the same version");
  const Address address(invitation->name);
  for (;; keep_waiting()) {
    const kit::Fd connection = new_socket(0);
    if (!connection) throw std::runtime_error("no socket can be made: " + reason(errno));
    const int error = connect_to(connection.get(), address);
    if (error == EAGAIN || error == EINTR) continue;
    if (error == 0) {
      if (kit::Fd file = ask(connection.get(), invitation->key, keep_waiting))
        return {std::move(file), invitation->key};
      std::this_thread::sleep_for(kSlice);
      continue;
    }
    std::string other_error;
    if (kit::Fd file = open_in_proc(*invitation, other_error))
      return {std::move(file), invitation->key};
    throw std::runtime_error(
        "its socket: " + reason(error) + "; its descriptor: " + other_error +
        "; that rank has failed, or is in another network namespace and another PID namespace "
        "(containers share them with --network container:NAME or --pid container:NAME)");
  }
}

}  // namespace plait::comm_shm

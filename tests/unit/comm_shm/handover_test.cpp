#include "plugins/comm/shm/handover.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <plait/plugin.hpp>
#include <stdexcept>
#include <vector>

using namespace plait::comm_shm;
using plait::kit::Fd;
using std::chrono::milliseconds;

namespace {

const std::string kKey(32, 'a'), kWrong(32, 'b');
constexpr milliseconds kNow(0), kShort(10);

// A file with known content, and rank 0 that serves it.
struct First {
  Fd file{memfd_create("plait", MFD_CLOEXEC)};
  FileServer server{write_mark(file.get()), kKey};
  static int write_mark(int fd) {
    if (pwrite(fd, "mark", 4, 0) != 4) throw std::runtime_error("no file for the test");
    return fd;
  }
  std::string socket() const {
    return server.invitation().substr(0, server.invitation().find(' '));
  }
};

bool has_mark(int fd) {
  char text[4];
  return pread(fd, text, 4, 0) == 4 && std::memcmp(text, "mark", 4) == 0;
}

sockaddr_un abstract(const std::string& name, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Fd connected(const std::string& name, const std::string& sent) {
  Fd s(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t size;
  const sockaddr_un address = abstract(name, size);
  if (connect(s.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return Fd();
  if (!sent.empty() && send(s.get(), sent.data(), sent.size(), MSG_NOSIGNAL) < 0) return Fd();
  return s;
}

// What a rank 0 of the test listens on.
Fd listening(const std::string& name, int queue) {
  Fd s(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t size;
  const sockaddr_un address = abstract(name, size);
  REQUIRE(bind(s.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(listen(s.get(), queue) == 0);
  return s;
}

bool has_ended(const Fd& socket) {
  pollfd one{socket.get(), POLLIN, 0};
  return poll(&one, 1, 0) > 0 && (one.revents & POLLHUP) != 0;
}

// While it exists, this process can open no file; one that it closes makes room.
class NoDescriptorLeft {
 public:
  explicit NoDescriptorLeft(int but = 0) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(Fd(dup(0)).get() + but);
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoDescriptorLeft() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorLeft(const NoDescriptorLeft&) = delete;
  NoDescriptorLeft& operator=(const NoDescriptorLeft&) = delete;

 private:
  rlimit before_;
};

// What f() writes in a process of its own, while this one serves.
template <class F>
std::string member(FileServer* server, F&& f) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    try {
      text = f();
    } catch (const std::exception& e) {
      text = e.what();
    }
    _exit(write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  close(ends[1]);
  const Fd reader(ends[0]);
  int status;
  while (waitpid(child, &status, WNOHANG) == 0)
    if (server) server->serve(kShort);
  char text[4096];
  const ssize_t n = read(reader.get(), text, sizeof text);
  return std::string(text, n > 0 ? static_cast<size_t>(n) : 0);
}

// Ends the wait of accept_file() after n calls.
auto calls(int n) {
  return [n]() mutable {
    if (n-- == 0) throw std::runtime_error("stopped");
  };
}

std::string outcome(const std::string& invitation, int n) {
  const ReceivedFile got = accept_file(invitation, calls(n));
  return !has_mark(got.fd.get()) ? "another file" : got.key == kKey ? "the file" : "another key";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string refusal(FileServer& server) {
  try {
    for (int i = 0; i < 5; ++i) server.serve(kNow);
  } catch (const plait::Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("members get the file") {
  First first;
  const auto ask = [&] { return outcome(first.server.invitation(), 1000); };
  CHECK(member(&first.server, ask) == "the file");
  CHECK(member(&first.server, ask) == "the file");
  CHECK(first.server.served() == 2);
}

TEST_CASE("a wrong key gets nothing") {
  First first;
  const Fd other = connected(first.socket(), kWrong);
  for (int i = 0; i < 3; ++i) first.server.serve(kNow);
  CHECK(has_ended(other));
  std::string invitation = first.server.invitation();
  invitation.replace(invitation.find(kKey), kKey.size(), kWrong);
  CHECK(member(&first.server, [&] { return outcome(invitation, 5); }) == "stopped");
  CHECK(first.server.served() == 0);
}

TEST_CASE("another user gets nothing, even with the key") {
  if (geteuid() != 0) {
    MESSAGE("not tried: only root can take another user's id");
    return;
  }
  First first;
  const auto as_another = [](auto&& f) {
    return setuid(65534) != 0 ? std::string("no setuid") : f();
  };
  CHECK(member(&first.server, [&] {
          return as_another([&] { return outcome(first.server.invitation(), 1000); });
        }) == "its socket belongs to another user; run all ranks as one user");
  CHECK(member(&first.server, [&] {
          return as_another([&] {
            const Fd s = connected(first.socket(), kKey);
            if (!s) return std::string("ended");  // before the key was sent
            pollfd one{s.get(), POLLIN, 0};
            char byte;
            return std::string(
                poll(&one, 1, 10000) == 1 && recv(s.get(), &byte, 1, 0) <= 0 ? "ended" : "open");
          });
        }) == "ended");
  CHECK(first.server.served() == 0);
}

TEST_CASE("silent connections keep no member from the file") {
  First first;
  std::vector<Fd> silent;
  for (int i = 0; i < 30; ++i) silent.push_back(connected(first.socket(), ""));
  CHECK(member(&first.server, [&] { return outcome(first.server.invitation(), 1000); }) ==
        "the file");
}

TEST_CASE("a member that sends its key late, and in parts, gets the file; signals change nothing") {
  First first;
  const Fd late = connected(first.socket(), "");
  struct sigaction before, empty = {};
  empty.sa_handler = [](int) {};
  sigaction(SIGALRM, &empty, &before);
  const itimerval often{{0, 500}, {0, 500}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  for (int i = 0; i < 5; ++i) first.server.serve(kShort);
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  for (const size_t from : {0, 16}) {
    REQUIRE(send(late.get(), kKey.data() + from, 16, MSG_NOSIGNAL) == 16);
    for (int i = 0; i < 3; ++i) first.server.serve(kNow);
    CHECK(first.server.served() == from / 16);
  }
}

TEST_CASE("each call accepts one connection, however many there are") {
  First first;
  std::vector<Fd> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(connected(first.socket(), kWrong));
  for (ptrdiff_t n = 0; n < 4; ++n) {
    first.server.serve(kShort);
    CHECK(std::count_if(strangers.begin(), strangers.end(), has_ended) <= n);
  }
}

TEST_CASE("more connections than are kept replace the oldest") {
  First first;
  std::vector<Fd> silent;
  for (int i = 0; i < 257; ++i) {
    silent.push_back(connected(first.socket(), ""));
    first.server.serve(kNow);
  }
  CHECK(has_ended(silent[0]));
  CHECK(!has_ended(silent[1]));
  CHECK(!has_ended(silent[256]));
}

TEST_CASE("connections that have ended keep no room from a member that is slow") {
  First first;
  const Fd slow = connected(first.socket(), "");
  first.server.serve(kNow);
  for (int i = 0; i < 300; ++i) {
    connected(first.socket(), "");
    first.server.serve(kNow);  // accepts it
    first.server.serve(kNow);  // and finds it closed
  }
  REQUIRE(send(slow.get(), kKey.data(), kKey.size(), MSG_NOSIGNAL) > 0);
  first.server.serve(kNow);
  CHECK(first.server.served() == 1);
}

TEST_CASE("a member whose connection ends connects again") {
  const std::string name = "plait-test-again-" + std::to_string(getpid());
  const Fd socket = listening(name, 4);
  int accepted = 0;
  CHECK_THROWS_WITH(accept_file(name + " " + kKey + " 1 0 0",
                                [&] {
                                  pollfd one{socket.get(), POLLIN, 0};
                                  if (poll(&one, 1, 0) > 0) {
                                    Fd(accept(socket.get(), nullptr, nullptr));
                                    ++accepted;
                                  }
                                  if (accepted == 3) throw std::runtime_error("stopped");
                                }),
                    "stopped");
}

TEST_CASE("a member that finds the queue full can stop waiting") {
  const std::string name = "plait-test-full-" + std::to_string(getpid());
  const Fd socket = listening(name, 0);
  std::vector<Fd> others;
  do others.push_back(connected(name, ""));
  while (others.back());
  CHECK_THROWS_WITH(accept_file(name + " " + kKey + " 1 0 0", calls(3)), "stopped");
}

TEST_CASE("a process without a descriptor left says so") {
  First first;
  CHECK(member(&first.server,
               [&] {
                 const NoDescriptorLeft none(1);
                 return outcome(first.server.invitation(), 1000);
               }) ==
        "this process has no descriptor left for it; raise the number of open files "
        "(ulimit -n)");
  CHECK(member(nullptr,
               [&] {
                 const NoDescriptorLeft none;
                 return outcome(first.server.invitation(), 1000);
               }) ==
        "no socket can be made: Too many open files (raise the number of open files with "
        "ulimit -n)");
  const Fd waiting = connected(first.socket(), kKey);
  const NoDescriptorLeft none;
  CHECK(refusal(first.server) ==
        "[shm] no connection of another rank can be accepted: Too many open files; raise the "
        "number of open files (ulimit -n), or choose another topology.backend");
}

TEST_CASE("without the socket the file is opened in /proc, if it is one of ours") {
  First first;
  const auto from_proc = [&](int fd) {
    std::string text = first.server.invitation();
    text = "plait-test-none" + text.substr(text.find(' '));
    return text.substr(0, text.rfind(' ') + 1) + std::to_string(fd);
  };
  CHECK(outcome(from_proc(first.file.get()), 0) == "the file");
  const Fd other(open("/dev/null", O_RDWR | O_CLOEXEC));
  const auto error_of = [&](int fd) {
    return member(nullptr, [&] { return outcome(from_proc(fd), 0); });
  };
  const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/";
  for (const auto& [fd, why] : {std::pair{other.get(), " is no longer the shared memory; "},
                                std::pair{100000, ": No such file or directory; "}}) {
    const std::string text = error_of(fd);
    CAPTURE(text);
    CHECK(has(text, "its socket: Connection refused; its descriptor: " + path + std::to_string(fd) +
                        why + "that rank has failed, or"));
  }
}

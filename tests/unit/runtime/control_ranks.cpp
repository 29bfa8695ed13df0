#include "tests/unit/runtime/control_ranks.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "engine/base/error.hpp"
#include "tests/support/own_threads.hpp"

namespace plait::runtime::testing {
namespace {

using Clock = std::chrono::steady_clock;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// With SO_REUSEADDR another socket with it may be bound there, too, while none listens.
int bind_on_loopback(int& port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no socket");
  port = ntohs(address.sin_port);
  return fd;
}

}  // namespace

Folder::Folder() {
  std::string name = std::filesystem::temp_directory_path() / "plait-control-XXXXXX";
  if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
  path_ = name;
}
Folder::~Folder() { std::filesystem::remove_all(path_); }

Lines::Lines()
    : log_([this](uint32_t, std::string_view line) {
        const std::lock_guard lock(mutex_);
        text_ += std::string(line) + "\n";
      }) {}

std::string Lines::all() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

bool Lines::has(const std::string& part) const { return testing::has(all(), part); }

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

ControlConfig Setup::of(int rank) const {
  ControlConfig config;
  config.name = "rank " + std::to_string(rank) + " (data " + std::to_string(rank) + ")";
  config.job.rank = config.job.local_rank = rank;
  config.job.size = config.job.local_size = size;
  config.job.rendezvous = rendezvous;
  config.job.secret = secret;
  config.job.listen_fd = rank == 0 ? listen_fd : -1;
  config.job.connect_timeout = timeouts.connect_timeout;
  config.job.timeout = timeouts.timeout;
  config.identity = {{"engine version", "0.1.0"}, {"configuration", "1f3a"}};
  config.times = times;
  return config;
}

Setup in_file(const Folder& folder, int size, const Timeouts& timeouts) {
  Setup setup;
  setup.size = size;
  setup.rendezvous = "file:" + folder.path("rendezvous");
  setup.timeouts = timeouts;
  return setup;
}

int listen_on_loopback(int& port) {
  const int fd = bind_on_loopback(port);
  if (listen(fd, 128) != 0) throw std::runtime_error("no listening socket");
  return fd;
}

FreePort::FreePort() : fd_(bind_on_loopback(number_)) {}
FreePort::~FreePort() { close(fd_); }

int connect_to_port(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

bool closes(int fd, double seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  char rest[4096];
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd one{fd, POLLIN, 0};
    if (poll(&one, 1, static_cast<int>(left)) > 0 && recv(fd, rest, sizeof rest, 0) <= 0)
      return true;
  }
}

void send_bytes(int fd, const std::string& bytes) {
  [[maybe_unused]] const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::string receive_bytes(int fd, size_t size) {
  std::string bytes(size, '\0');
  const ssize_t n = recv(fd, bytes.data(), size, MSG_WAITALL);
  bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return bytes;
}

std::vector<std::string> on_threads(const std::vector<int>& ranks,
                                    const std::function<void(int)>& f,
                                    std::vector<uint32_t>* codes) {
  std::vector<std::string> texts(ranks.size());
  std::vector<uint32_t> found(ranks.size(), PLAIT_OK);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        f(ranks[i]);
      } catch (const Error& e) {
        texts[i] = e.text();
        found[i] = e.code();
      } catch (const std::exception& e) {
        texts[i] = e.what();
        found[i] = PLAIT_ERR_INTERNAL;
      } catch (...) {
        texts[i] = "a failed check";
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (codes) *codes = found;
  return texts;
}

Child::Child(const std::function<void()>& f) {
  std::fflush(nullptr);  // otherwise the child writes it too
  std::cout.flush();
  id_ = fork();
  if (id_ < 0) throw std::runtime_error("fork");
  if (id_ > 0) return;
  int status = 0;
  try {
    f();
  } catch (...) {
    status = 1;
  }
  _exit(status);
}

Child::~Child() {
  if (id_ < 0) return;
  kill(id_, SIGKILL);
  wait();
}

void Child::signal(int number) const { kill(id_, number); }

int Child::wait() {
  int status = 0;
  while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  id_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool eventually(const std::function<bool()>& holds, double seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (!holds()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string wait_for_end(Control& control, double seconds) {
  std::mutex mutex;
  std::condition_variable changed;
  std::string reason;
  control.on_end([&](const std::string& text) {
    const std::lock_guard lock(mutex);
    reason = text;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !reason.empty(); });
  }
  control.on_end({});
  return reason;
}

size_t count_descriptors() {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}
size_t count_threads() { return plait::test::own_threads().size(); }

}  // namespace plait::runtime::testing

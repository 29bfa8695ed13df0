// The control channel and strangers: a connection that is not a rank does not disturb the job.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/runtime/control.hpp"
#include "engine/runtime/control/auth.hpp"
#include "engine/runtime/control/messages.hpp"
#include "tests/unit/runtime/control_ranks.hpp"

using namespace plait;
using namespace plait::runtime;
using namespace plait::runtime::testing;
using control::FrameWriter;
using control::MessageKind;

namespace {

constexpr double kSoon = 60;  // seconds within which an expected event surely happens
const std::string kSecret = "a secret of the job, 32 bytes ..";

// A job whose rank 0 listens on a port that is known to everyone.
class Open {
 public:
  Open() {
    setup.listen_fd = listen_on_loopback(port);
    setup.rendezvous = "127.0.0.1:" + std::to_string(port);
    setup.secret = kSecret;
  }
  ~Open() { close(setup.listen_fd); }

  // Runs the job while `disturb` runs, before and after the ranks join; neither may be affected.
  void run(const std::function<void(int round)>& disturb) {
    const auto failures = on_threads({0, 1}, [&](int rank) {
      if (rank == 1) disturb(0);
      Control control(setup.of(rank), lines.log());
      if (rank == 1) {
        disturb(1);
        control.set("done", "");
      }
      control.get("done", kSoon);
      CHECK(control.end_reason() == "");
    });
    for (const std::string& failure : failures) CHECK(failure == "");
  }

  Setup setup;
  Lines lines;
  int port = 0;
};

std::string hello(uint32_t rank, uint32_t size) {
  return control::encode(control::Hello{rank, size, std::string(control::kNonceSize, 'n')});
}

constexpr size_t kGreetingSize =
    control::kHeaderSize + control::kRunSize + control::kNonceSize + control::kProofSize;

// Forwards bytes between a rank and rank 0, and keeps what the rank sends before it is accepted.
class Eavesdropper {
 public:
  explicit Eavesdropper(int to_port) : to_port_(to_port), listener_(listen_on_loopback(port_)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Eavesdropper() {
    if (thread_.joinable()) thread_.join();
    close(listener_);
  }
  int port() const { return port_; }
  // The received bytes; call it after the rank has exited.
  std::string stop() {
    thread_.join();
    return heard_;
  }

 private:
  void run() {
    const int rank = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int server = connect_to_port(to_port_);
    pollfd fds[2] = {{rank, POLLIN, 0}, {server, POLLIN, 0}};
    for (bool open = true; open;) {
      poll(fds, 2, -1);
      for (const int from : {0, 1}) {
        if (!fds[from].revents) continue;
        char bytes[4096];
        const ssize_t n = recv(fds[from].fd, bytes, sizeof bytes, 0);
        if (n <= 0) open = false;
        if (n <= 0) break;
        if (from == 0) heard_.append(bytes, static_cast<size_t>(n));
        send_bytes(fds[1 - from].fd, {bytes, static_cast<size_t>(n)});
      }
    }
    close(rank);
    close(server);
  }

  int to_port_, port_ = 0, listener_;
  std::string heard_;
  std::thread thread_;
};

}  // namespace

TEST_SUITE_BEGIN("control_untrusted_peers");

TEST_CASE("junk is dropped at once, and logged") {
  Open job;
  job.run([&](int) {
    for (const std::string& junk :
         {std::string(256, '\xff'), std::string(256, '\0'), std::string("GET / HTTP/1.0\r\n\r\n"),
          std::string("\x10\0\0\0\1\0\0\0", 8) + std::string(16, 'x'),
          FrameWriter(MessageKind::kArrive).raw("hello").done(),
          FrameWriter(MessageKind::kGoodbye).done(), hello(1, 2) + std::string(8, '\xff')}) {
      const int fd = connect_to_port(job.port);
      send_bytes(fd, junk);
      CHECK(closes(fd, kSoon));
      close(fd);
    }
  });
  CHECK(job.lines.has("dropped a connection from 127.0.0.1:"));
  CHECK(job.lines.has("it sent an invalid message"));
}

TEST_CASE("a message too long for an unauthenticated peer is dropped before it has arrived") {
  Open job;
  job.run([&](int) {
    const int fd = connect_to_port(job.port);
    send_bytes(fd, std::string("\0\1\0\0\1\0\0\0", 8).replace(1, 1, "\x02"));  // 512 bytes to come
    CHECK(closes(fd, kSoon));
    close(fd);
  });
}

TEST_CASE("a connection that sends nothing, or too little, is dropped after a while") {
  Open job;
  job.setup.times.authentication = 1;
  job.run([&](int round) {
    if (round == 0) return;
    const int silent = connect_to_port(job.port), slow = connect_to_port(job.port);
    send_bytes(slow, hello(1, 2).substr(0, 20));
    CHECK(closes(silent, kSoon));
    CHECK(closes(slow, kSoon));
    close(silent);
    close(slow);
  });
  CHECK(job.lines.has("it did not authenticate within 1 s"));
}

TEST_CASE("a peer that does not know the secret learns nothing but a proof") {
  Open job;
  job.run([&](int) {
    const int fd = connect_to_port(job.port);
    send_bytes(fd, hello(1, 2));
    CHECK(receive_bytes(fd, kGreetingSize).size() == kGreetingSize);
    send_bytes(fd, FrameWriter(MessageKind::kProof).raw(std::string(32, 'p')).done());
    CHECK(receive_bytes(fd, 1) == "");
    close(fd);
  });
  CHECK(job.lines.has("it does not know the job's secret (it says it is rank 1)"));
}

TEST_CASE("a proof with one wrong bit is refused") {
  Open job;
  job.run([&](int) {
    for (const size_t bit : {size_t{0}, size_t{1}, size_t{7}, 8 * control::kProofSize - 1}) {
      const int fd = connect_to_port(job.port);
      send_bytes(fd, hello(1, 2));
      const std::string answer = receive_bytes(fd, kGreetingSize);
      control::Challenge c;
      c.run = answer.substr(control::kHeaderSize, control::kRunSize);
      c.client_nonce = std::string(control::kNonceSize, 'n');
      c.server_nonce = answer.substr(control::kHeaderSize + control::kRunSize, control::kNonceSize);
      c.rank = 1;
      c.size = 2;
      std::string wrong = control::proof(kSecret, c, control::Side::kClient);
      wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ 1 << bit % 8);
      send_bytes(fd, FrameWriter(MessageKind::kProof).raw(wrong).done());
      CHECK(receive_bytes(fd, 1) == "");
      close(fd);
    }
  });
  CHECK(job.lines.has("it does not know the job's secret (it says it is rank 1)"));
}

TEST_CASE("a rank with another secret does not get in, and says why") {
  Open job;
  job.run([&](int round) {
    if (round == 1) return;
    Setup wrong = job.setup;
    wrong.secret = "another secret of the same sort.";
    wrong.timeouts.connect_timeout = 3;  // in which rank 0 has to answer, on a busy machine as well
    Lines lines;
    std::string text;
    try {
      const Control control(wrong.of(1), lines.log());
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_PEER);
      text = e.text();
    }
    CHECK(has(text, "it does not know this job's secret"));
  });
}

TEST_CASE("the recorded messages of a rank cannot be replayed") {
  Open job;
  std::string heard;
  {
    Eavesdropper between(job.port);
    Setup through = job.setup;
    through.rendezvous = "127.0.0.1:" + std::to_string(between.port());
    const auto failures = on_threads({0, 1}, [&](int rank) {
      const Control control((rank == 0 ? job.setup : through).of(rank), job.lines.log());
    });
    for (const std::string& failure : failures) CHECK(failure == "");
    heard = between.stop();
  }
  CHECK(job.lines.all() == "");
  CHECK(heard.size() > hello(1, 2).size() + control::kHeaderSize + control::kProofSize);
  job.run([&](int) {
    const int fd = connect_to_port(job.port);
    send_bytes(fd, heard.substr(0, hello(1, 2).size()));
    CHECK(receive_bytes(fd, kGreetingSize).size() == kGreetingSize);
    send_bytes(fd, heard.substr(hello(1, 2).size()));
    CHECK(receive_bytes(fd, 1) == "");
    close(fd);
  });
  CHECK(job.lines.has("it does not know the job's secret (it says it is rank 1)"));
}

TEST_CASE("two thousand connections that never authenticate") {
  Open job;
  const size_t descriptors = count_descriptors();
  std::atomic<size_t> most{0};
  job.run([&](int round) {
    std::vector<int> open;
    const int idle = round == 0 ? 300 : 100;
    for (int i = 0; i < idle; ++i) open.push_back(connect_to_port(job.port));
    for (int i = 0; i < 900; ++i) {
      const int fd = connect_to_port(job.port);
      send_bytes(fd, "junk that is no message of ours at all");
      close(fd);
      const size_t now = count_descriptors() - open.size();
      if (now > most) most = now;
    }
    for (const int fd : open) close(fd);
  });
  // Descriptors of this test, rank 0's connections, and the ones that a job has open anyway.
  CHECK(most < descriptors + 64 + 16);
  const std::string all = job.lines.all();
  CHECK(has(all, " more connections were refused"));
  CHECK(std::count(all.begin(), all.end(), '\n') < 100);
}

TEST_CASE("a process that answers in place of rank 0 is detected") {
  int port = 0;
  const int fd = listen_on_loopback(port);
  std::atomic<bool> done{false};
  std::thread impostor([&] {
    while (!done) {
      const int one = accept4(fd, nullptr, nullptr, SOCK_CLOEXEC);
      receive_bytes(one, hello(1, 2).size());
      send_bytes(one, control::encode(control::Greeting{std::string(control::kRunSize, 'r'),
                                                        std::string(control::kNonceSize, 'n'),
                                                        std::string(control::kProofSize, 'p')}));
      // Any answer would be a proof.
      if (!done) CHECK(receive_bytes(one, 1) == "");
      close(one);
    }
  });
  Setup setup;
  setup.rendezvous = "127.0.0.1:" + std::to_string(port);
  setup.secret = kSecret;
  setup.timeouts.connect_timeout = 3;  // in which the other thread has to answer
  Lines lines;
  std::string text;
  try {
    const Control control(setup.of(1), lines.log());
  } catch (const Error& e) {
    text = e.text();
  }
  CHECK(has(text, "it does not know this job's secret"));
  done = true;
  close(connect_to_port(port));
  impostor.join();
  close(fd);
}

TEST_CASE("the secret is in no message") {
  const Folder folder;
  Setup setup;
  setup.rendezvous = "127.0.0.1:1";
  setup.secret = kSecret;
  setup.timeouts.connect_timeout = 0.1;
  Lines lines;
  try {
    const Control control(setup.of(1), lines.log());
  } catch (const Error& e) {
    CHECK(!has(e.full_text(), kSecret));
  }
  CHECK(!lines.has(kSecret));
}

TEST_SUITE_END();

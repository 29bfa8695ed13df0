// A stranger, not a member, connects to the ports of a group that is connecting.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/comm/ranks.hpp"

namespace {

using namespace comm_test;

// Loopback ports of this machine on which this process listens.
std::set<uint16_t> listening_ports() {
  std::set<std::string> own;  // "socket:[12]"
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed_meanwhile;
    own.insert(std::filesystem::read_symlink(entry.path(), closed_meanwhile).string());
  }
  std::set<uint16_t> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string local, state, inode, skip;
    words >> skip >> local >> skip >> state >> skip >> skip >> skip >> skip >> skip >> inode;
    if (state == "0A" && local.starts_with("0100007F:") && own.contains("socket:[" + inode + "]"))
      ports.insert(static_cast<uint16_t>(std::stoul(local.substr(9), nullptr, 16)));
  }
  return ports;
}

int connect_to(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return fd;
  close(fd);
  return -1;
}

// Closes so that the other end's next call fails: "not connected", "reset by peer".
void reset(int fd) {
  const linger at_once{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(fd);
}

// What a stranger does with a connection.
enum class Visit { waits, sends_junk, resets, claims_a_rank };

// Connects to every port again and again, at most `most` times, and keeps its last connections
// open, unless it resets each at once.
class Stranger {
 public:
  Stranger(int most, Visit visit) : most_(most), visit_(visit), thread_([this] { run(); }) {}
  ~Stranger() {
    over_ = true;
    thread_.join();
    for (const int fd : held_) close(fd);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  int visits() const { return visits_; }
  // Returns when it has connected to every port that is open now, many times if it is one of the
  // first, or makes no more connections.
  void wait_for_visits() const {
    for (const int begun = rounds_;
         (rounds_ < begun + 2 || visits_ < kMostHeld) && visits_ < most_;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  void run() {
    // Gloo's plugin: a hello of rank 2, as it should be, and a proof that is none.
    const std::string claim = std::string("plaitgl1\2\0\0\0", 12) + std::string(64, 'x');
    const std::string text = visit_ == Visit::claims_a_rank ? claim : std::string(256, 'x');
    for (; !over_; ++rounds_) {
      for (const uint16_t port : listening_ports()) {
        const int fd = visits_ == most_ ? -1 : connect_to(port);
        if (fd < 0) continue;
        ++visits_;
        if (visit_ == Visit::resets) {
          reset(fd);
          continue;
        }
        if (held_.size() == size_t{kMostHeld}) {
          close(held_.front());
          held_.pop_front();
        }
        held_.push_back(fd);
        if (visit_ != Visit::waits) send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // More than three ranks keep, so that they drop some.
  static constexpr int kMostHeld = 400;
  const int most_;
  const Visit visit_;
  std::deque<int> held_;
  std::atomic<bool> over_{false};
  std::atomic<int> visits_{0}, rounds_{0};
  std::thread thread_;
};

// Delays values of the store until the stranger has connected everywhere before the members.
class LateStore {
 public:
  LateStore(const Stranger& stranger, double timeout)
      : stranger_(stranger), store_(timeout), raw_{sizeof(plait_store), this, set, get, nullptr} {}
  const plait_store* raw() const { return &raw_; }

 private:
  static plait_error* set(void* self, const char* key, const void* data, uint64_t size) {
    const plait_store* store = static_cast<LateStore*>(self)->store_.raw();
    return store->set(store->self, key, data, size);
  }
  static plait_error* get(void* self, const char* key, void* data, uint64_t capacity,
                          uint64_t* size) {
    static_cast<LateStore*>(self)->stranger_.wait_for_visits();
    const plait_store* store = static_cast<LateStore*>(self)->store_.raw();
    return store->get(store->self, key, data, capacity, size);
  }
  const Stranger& stranger_;
  MemoryStore store_;
  const plait_store raw_;
};

}  // namespace

TEST_SUITE("failure") {
  TEST_CASE("untrusted peers on the ports of a group that connects") {
    constexpr double kConnectTimeout = 60, kTimeout = 60;  // the engine's defaults
    constexpr int kVisits = 2000;
    for (const auto& plugin : plugins()) {
      if (plugin->item().reach < PLAIT_COMM_REACH_NETWORK) continue;
      for (const Visit visit :
           {Visit::waits, Visit::sends_junk, Visit::resets, Visit::claims_a_rank}) {
        const Stranger stranger(kVisits, visit);
        const LateStore store(stranger, kConnectTimeout);
        const auto outcomes = each_rank(3, [&](uint32_t rank) {
          Comm comm(*plugin, store.raw(), rank, 3, {"data[0]", kConnectTimeout, kTimeout});
          std::vector<float> data(10, 1);
          Call(comm,
               desc(PLAIT_COMM_ALL_REDUCE, PLAIT_F32, 10, data.data(), data.data(), PLAIT_COMM_SUM))
              .run();
          require(data[9] == 3, "wrong sum");
        });
        CHECK_NOTHROW(expect_all_ok(outcomes));
        CHECK(stranger.visits() >= 400);
        for (const Outcome& outcome : outcomes) CHECK(outcome.seconds < 30);
        CHECK(live_errors() == 0);
      }
    }
  }

  // Gloo's plugin alone: a rank that publishes an address and is not there, or is another program.
  TEST_CASE("a member that does not answer is named, with the reason, and nobody waits twice") {
    for (const auto& plugin : plugins()) {
      if (plugin->name() != "gloo") continue;
      for (const bool listens : {false, true}) {
        MemoryStore store(1);
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
        REQUIRE(getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0);
        if (listens) REQUIRE(listen(fd, 1) == 0);
        const plait_store* raw = store.raw();
        REQUIRE(raw->set(raw->self, "gloo.secret", "secret", 6) == nullptr);
        REQUIRE(raw->set(raw->self, "gloo.address.0", &at, sizeof at) == nullptr);
        const auto outcomes = each_rank(2, [&](uint32_t rank) {
          if (rank == 1) Comm(*plugin, raw, 1, 2, {"data[0]", 1, 60});
        });
        close(fd);
        CAPTURE(outcomes[1].text);
        CHECK(outcomes[1].code == PLAIT_ERR_PEER);
        CHECK(outcomes[1].text.find("did not connect within 1 s; missing: rank 0 (data 0)") !=
              std::string::npos);
        CHECK((outcomes[1].text.find("(Connection refused)") == std::string::npos) == listens);
        CHECK(outcomes[1].seconds < 1.9);
        CHECK(live_errors() == 0);
      }
    }
  }
}

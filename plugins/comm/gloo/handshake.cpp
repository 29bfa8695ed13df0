#include "plugins/comm/gloo/handshake.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <string_view>

#include "kit/hmac.hpp"

namespace plait::comm_gloo {
namespace {

using comm_support::Members;

constexpr std::string_view kMagic = "plaitgl1";
constexpr size_t kNonce = 32, kProof = 32, kHello = kMagic.size() + sizeof(uint32_t) + kNonce;
constexpr std::string_view kAdmitted = "1";
// Accepted connections whose handshake is under way, beside one for each member. The oldest is
// dropped for a new one: a member whose connection is dropped connects again.
constexpr size_t kMostStrangers = 64;
constexpr auto kPause = std::chrono::milliseconds(20);  // before a rank connects again

// A connection whose handshake is under way.
struct Link {
  enum class State { connecting, hello, greeting, proof, admission, admitted };
  Fd socket;
  State state;           // from `hello` on: the message that is awaited
  uint32_t rank;         // of the other side; of an accepted connection valid after its hello
  std::string nonces{};  // of the side that connects, then of the side that accepts
  std::string received{};

  size_t awaited_bytes() const {
    switch (state) {
      case State::hello:
        return kHello;
      case State::greeting:
        return kNonce + kProof;
      case State::proof:
        return kProof;
      default:
        return kAdmitted.size();
    }
  }
};

// Why a connection is dropped.
struct Fault {
  std::string text;
};

[[noreturn]] void drop(std::string text) { throw Fault{std::move(text)}; }

// A message fits into an empty socket buffer.
void send_all(const Link& link, std::string_view message) {
  const ssize_t sent = ::send(link.socket.get(), message.data(), message.size(), MSG_NOSIGNAL);
  if (sent < 0) drop(std::strerror(errno));
  if (sent != static_cast<ssize_t>(message.size())) drop("a message was cut");
}

// Whether the awaited message is complete.
bool receive(Link& link) {
  char buffer[kHello + kNonce + kProof];
  const size_t left = link.awaited_bytes() - link.received.size();
  const ssize_t got = ::recv(link.socket.get(), buffer, left, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got < 0) drop(std::strerror(errno));
  if (got == 0) drop("the other side closed it");
  link.received.append(buffer, static_cast<size_t>(got));
  return link.received.size() == link.awaited_bytes();
}

class Handshakes {
 public:
  Handshakes(const Members& members, const std::string& secret, int listener,
             const std::vector<std::string>& addresses, int stop)
      : members_(members),
        secret_(secret),
        listener_(listener),
        addresses_(addresses),
        stop_(stop),
        done_(members.size),
        own_(members.rank) {}

  Connections run(Clock::time_point deadline) {
    for (;;) {
      std::string missing = missing_members();
      const auto now = Clock::now();
      if (missing.empty() || now >= deadline)
        return {std::move(done_), std::move(missing), dropped_, std::move(last_drop_)};
      connect_again(now);
      wait(std::min(deadline, now + kPause));
    }
  }

 private:
  struct OwnConnection {  // to a lower rank
    bool under_way = false;
    Clock::time_point due{};  // when to connect again
    std::string fault;        // of the last connection
  };

  std::string missing_members() const {
    std::string text;
    for (uint32_t r = 0; r < members_.size; ++r) {
      if (r == members_.rank || done_[r]) continue;
      text += (text.empty() ? "" : ", ") + members_.names[r];
      if (r < members_.rank && !own_[r].fault.empty()) text += " (" + own_[r].fault + ")";
    }
    return text;
  }

  void connect_again(Clock::time_point now) {
    for (uint32_t r = 0; r < members_.rank; ++r) {
      if (done_[r] || own_[r].under_way || now < own_[r].due) continue;
      int error = 0;
      Fd socket = start_connecting(addresses_[r], error);
      own_[r] = {error == 0, now + kPause, error ? std::strerror(error) : own_[r].fault};
      if (!error) links_.push_back({std::move(socket), Link::State::connecting, r});
    }
  }

  // Waits for events until `until` at most and handles them.
  void wait(Clock::time_point until) {
    std::vector<pollfd> events{{stop_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Link& link : links_) {
      const bool connecting = link.state == Link::State::connecting;
      events.push_back({link.socket.get(), static_cast<short>(connecting ? POLLOUT : POLLIN), 0});
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    const auto patience = static_cast<int>(std::max<int64_t>(0, left.count()));
    if (poll(events.data(), events.size(), patience) < 0) {
      if (errno != EINTR) fail_io("cannot wait for connections");
      return;
    }
    if (events[0].revents) fail(PLAIT_ERR_PEER, "another member gave up");
    size_t i = 2;
    for (auto link = links_.begin(); link != links_.end(); ++i) {
      const auto next = std::next(link);
      if (events[i].revents && over(*link)) links_.erase(link);
      link = next;
    }
    if (events[1].revents) accept_all();
  }

  // At most so many that the connections under way get their turn.
  void accept_all() {
    for (size_t n = 0; n < kMostStrangers; ++n) {
      Fd socket = accept_connection(listener_);
      if (!socket) return;
      const auto accepted = [&](const Link& link) { return !connects(link); };
      const auto under_way = std::count_if(links_.begin(), links_.end(), accepted);
      if (static_cast<size_t>(under_way) >= members_.size + kMostStrangers) {
        links_.erase(std::find_if(links_.begin(), links_.end(), accepted));
        dropped("there were too many");
      }
      links_.push_back({std::move(socket), Link::State::hello, members_.rank});
    }
  }

  bool connects(const Link& link) const { return link.rank < members_.rank; }

  // Handles an event of the connection. True: it is admitted or dropped.
  bool over(Link& link) {
    try {
      advance(link);
      if (link.state != Link::State::admitted) return false;
      done_[link.rank] = std::move(link.socket);
      return true;
    } catch (const Fault& fault) {
      if (connects(link))
        own_[link.rank] = {false, Clock::now() + kPause, fault.text};
      else
        dropped(fault.text);
      return true;
    }
  }
  void dropped(std::string why) {
    ++dropped_;
    last_drop_ = std::move(why);
  }

  void advance(Link& link) {
    if (link.state == Link::State::connecting) {
      if (const int error = connect_error(link.socket.get())) drop(std::strerror(error));
      const uint32_t rank = members_.rank;
      link.nonces = random_bytes(kNonce);
      std::string hello(kMagic);
      for (int shift = 0; shift < 32; shift += 8) hello += static_cast<char>(rank >> shift & 255);
      send_all(link, hello + link.nonces);
      link.state = Link::State::greeting;
      return;
    }
    if (!receive(link)) return;
    const std::string message = std::move(link.received);
    link.received.clear();
    if (link.state == Link::State::hello)
      on_hello(link, message);
    else if (link.state == Link::State::greeting)
      on_greeting(link, message);
    else if (link.state == Link::State::proof)
      on_proof(link, message);
    else
      link.state = Link::State::admitted;
  }

  void on_hello(Link& link, std::string_view message) const {
    if (!message.starts_with(kMagic)) drop("it is of no rank");
    uint32_t rank = 0;
    for (unsigned i = 0; i < sizeof rank; ++i)
      rank |= uint32_t{static_cast<uint8_t>(message[kMagic.size() + i])} << 8 * i;
    if (rank <= members_.rank || rank >= members_.size)
      drop("it is of a rank that connects elsewhere");
    link.rank = rank;
    const std::string nonce = random_bytes(kNonce);
    link.nonces = std::string(message.substr(kHello - kNonce)) + nonce;
    send_all(link, nonce + proof("accepts", members_.rank, link));
    link.state = Link::State::proof;
  }
  void on_greeting(Link& link, std::string_view message) const {
    link.nonces += message.substr(0, kNonce);
    if (!kit::equal_constant_time(message.substr(kNonce), proof("accepts", link.rank, link)))
      drop("the process that answers does not know the group's secret");
    send_all(link, proof("connects", members_.rank, link));
    link.state = Link::State::admission;
  }
  void on_proof(Link& link, std::string_view message) const {
    if (!kit::equal_constant_time(message, proof("connects", link.rank, link)))
      drop("it does not know the group's secret");
    send_all(link, kAdmitted);
    link.state = Link::State::admitted;
  }

  // Of `rank`, which connects or accepts. Valid for one connection, since each side has chosen one
  // of the nonces.
  std::string proof(const char* side, uint32_t rank, const Link& link) const {
    return std::string(kit::text_of(
        kit::hmac(secret_, "plait gloo " + std::to_string(rank) + " " + side + " " + link.nonces)));
  }

  const Members& members_;
  const std::string& secret_;
  const int listener_;
  const std::vector<std::string>& addresses_;
  const int stop_;
  std::vector<Fd> done_;            // (R)
  std::vector<OwnConnection> own_;  // (rank)
  uint64_t dropped_ = 0;            // accepted connections
  std::string last_drop_;           // why the last one was dropped
  std::list<Link> links_;           // oldest first
};

}  // namespace

Connections connect_members(const Members& members, const std::string& secret, int listener,
                            const std::vector<std::string>& addresses, int stop,
                            Clock::time_point deadline) {
  return Handshakes(members, secret, listener, addresses, stop).run(deadline);
}

}  // namespace plait::comm_gloo

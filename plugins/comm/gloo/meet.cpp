#include "plugins/comm/gloo/meet.hpp"

#include <gloo/transport/address.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstdio>

#include "plugins/comm/gloo/auth.hpp"
#include "plugins/comm/gloo/sigpipe.hpp"

namespace plait::comm_gloo {
namespace {

namespace transport = ::gloo::transport;
using comm_support::Members;

constexpr int kAttempts = 20;
constexpr size_t kMost =
    60 * 1024;  // bytes of addresses that one rank lays down: below the store's limit

class Meeting {
 public:
  Meeting(const Members& members, const Store& store, double connect_timeout, double timeout)
      : members_(members),
        store_(store),
        connect_timeout_(connect_timeout),
        timeout_(timeout),
        deadline_(after(connect_timeout)),
        attempt_seconds_(std::max(0.5, connect_timeout / 4)) {}

  std::unique_ptr<Wire> come_together(const std::string& interface) {
    const std::string address =
        listen_address(interface, members_.hosts[members_.rank], members_.hosts);
    if (members_.rank == 0) store_.set("gloo.secret", random_bytes(32));
    set("here", "1");
    for_all([&](uint32_t r) { get("here", r); });
    secret_ = store_.get("gloo.secret", missing(members_.names[0]));

    open_device(address);
    for (attempt_ = 0;; ++attempt_) {
      std::unique_ptr<Wire> wire;
      std::string why;
      try {
        wire = attempt();
      } catch (const std::exception& e) {
        why = e.what();
      }
      if (all_succeeded(why)) return wire;
      wire.reset();
    }
  }

 private:
  // A key of this rank and attempt, and that of another rank.
  std::string key(const char* what, uint32_t rank) const {
    return std::string("gloo.") + what + "." + std::to_string(attempt_) + "." +
           std::to_string(rank);
  }
  void set(const char* what, const std::string& value) const {
    store_.set(key(what, members_.rank), value);
  }
  std::string get(const char* what, uint32_t rank) const {
    return store_.get<64 * 1024>(key(what, rank), missing(members_.names[rank]));
  }
  std::string missing(const std::string& who) const {
    return unmet() + "; missing: " + who + "; look whether it runs and can be reached";
  }
  std::string unmet() const {
    char limit[32];
    std::snprintf(limit, sizeof limit, "%g s", connect_timeout_);
    return members_.head() + " did not come about within " + limit;
  }
  template <class F>
  void for_all(F f) const {
    for (uint32_t r = 0; r < members_.size; ++r)
      if (r != members_.rank) f(r);
  }

  // Gloo's thread starts here and inherits the mask.
  void open_device(const std::string& address) {
    const SigpipeBlock block(SigpipeBlock::What::kAll);
    device_ = transport::tcp::CreateDevice(transport::tcp::attr(address.c_str()));
  }

  std::unique_ptr<Wire> attempt() {
    const auto context =
        device_->createContext(static_cast<int>(members_.rank), static_cast<int>(members_.size));
    // Gloo waits five times as long for a connection.
    context->setTimeout(std::chrono::milliseconds(static_cast<int64_t>(attempt_seconds_ * 200)));
    std::vector<Connection> connections(members_.size);
    std::string own;
    for (uint32_t r = 0; r < members_.size; ++r) {
      if (r != members_.rank)
        connections[r].own = context->createPair(static_cast<int>(r))->address().bytes();
      own.append(connections[r].own.begin(), connections[r].own.end());
    }
    if (own.size() > kMost)
      fail(PLAIT_ERR_UNIMPLEMENTED, members_.head() + " is too large for Gloo");
    set("ports", own);
    for_all([&](uint32_t r) {
      const std::string ports = get("ports", r);
      const size_t one = ports.size() / (members_.size - 1);  // NOLINT(*.DivideZero): r is another
      // The addresses of rank r, which leaves out itself.
      const char* at = ports.data() + one * (members_.rank - (members_.rank > r ? 1 : 0));
      connections[r].other.assign(at, at + one);
      context->getPair(static_cast<int>(r))->connect(connections[r].other);
    });
    auto ends = ends_of(connections, timeout_);
    for_all([&](uint32_t r) {
      if (!ends[r])
        fail(PLAIT_ERR_IO, members_.head() + " found no socket to " + members_.names[r]);
    });
    auto wire = std::make_unique<Wire>(members_, context, std::move(ends));
    prove(*wire);
    return wire;
  }

  Digest proof(uint32_t from, uint32_t to) const {
    return hmac(secret_, "plait gloo " + std::to_string(attempt_) + " " + std::to_string(from) +
                             " " + std::to_string(to));
  }
  void prove(Wire& wire) const {
    static const std::string what = "the first exchange";
    std::vector<Digest> mine(members_.size), theirs(members_.size);
    Exchange all(wire, what, std::min(deadline_, after(attempt_seconds_)));
    for_all([&](uint32_t r) {
      mine[r] = proof(members_.rank, r);
      all.send(r, 0, mine[r].data(), mine[r].size());
      all.receive(r, 0, theirs[r].data(), theirs[r].size());
    });
    all.wait();
    for_all([&](uint32_t r) {
      if (!same(theirs[r], proof(r, members_.rank)))
        fail(PLAIT_ERR_PEER, members_.head() + ": who answers as " + members_.names[r] +
                                 " does not know the group's secret");
    });
  }

  // All ranks agree on the outcome, whoever it was that failed. Throws when there is no time for another attempt.
  bool all_succeeded(const std::string& own_failure) const {
    set("outcome", own_failure.empty() ? "ok" : own_failure.substr(0, 1000));
    std::string failure = own_failure;
    for_all([&](uint32_t r) {
      const std::string outcome = get("outcome", r);
      if (outcome != "ok" && failure.empty()) failure = outcome;
    });
    if (failure.empty()) return true;
    if (Clock::now() >= deadline_ || attempt_ == kAttempts)
      fail(PLAIT_ERR_PEER, unmet() + ": " + failure);
    return false;
  }

  const Members& members_;
  const Store& store_;
  const double connect_timeout_, timeout_;
  const Clock::time_point deadline_;
  const double attempt_seconds_;
  std::string secret_;
  std::shared_ptr<transport::Device> device_;
  int attempt_ = 0;
};

}  // namespace

std::unique_ptr<Wire> meet(const Members& members, const Store& store, const std::string& interface,
                           double connect_timeout, double timeout) {
  if (members.size == 1) return std::make_unique<Wire>(members, nullptr, std::vector<Fd>(1));
  return Meeting(members, store, connect_timeout, timeout).come_together(interface);
}

}  // namespace plait::comm_gloo

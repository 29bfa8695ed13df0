#include "plugins/comm/gloo/rendezvous.hpp"

#include <gloo/transport/address.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "plugins/comm/gloo/auth.hpp"
#include "plugins/comm/gloo/connect_outcome.hpp"
#include "plugins/comm/gloo/sched_batch_scope.hpp"
#include "plugins/comm/gloo/sigpipe.hpp"

namespace plait::comm_gloo {
namespace {

namespace transport = ::gloo::transport;
using comm_support::Members;

using Connections = std::vector<Connection>;  // (R) that to itself is empty

constexpr size_t kMaxPortBytes =
    60 * 1024;  // bytes of addresses that one rank publishes: below the store's limit

class Rendezvous {
 public:
  Rendezvous(const Members& members, const Host& host, const Store& store, double connect_timeout,
             double timeout)
      : members_(members),
        host_(host),
        store_(store),
        connect_timeout_(connect_timeout),
        timeout_(timeout),
        deadline_(after(connect_timeout)) {}

  std::unique_ptr<PeerLinks> run(const std::string& interface) {
    const std::string address =
        listen_address(interface, members_.hosts[members_.rank], members_.hosts);
    if (members_.rank == 0) store_.set("gloo.secret", random_bytes(32));
    set("here", "1");
    for_all([&](uint32_t r) { get("here", r); });
    secret_ = store_.get("gloo.secret", missing(members_.names[0]));

    open_device(address);
    for (;; ++attempt_) {
      if (auto links = attempt()) return links;
      std::this_thread::sleep_for(pause());
    }
  }

 private:
  // A key of this attempt, and one of a rank in it.
  std::string key(const char* what) const {
    return std::string("gloo.") + what + "." + std::to_string(attempt_);
  }
  std::string key(const char* what, uint32_t rank) const {
    return key(what) + "." + std::to_string(rank);
  }
  void set(const char* what, const std::string& value) const {
    store_.set(key(what, members_.rank), value);
  }
  std::string get(const char* what, uint32_t rank) const {
    return store_.get<64 * 1024>(key(what, rank), missing(members_.names[rank]));
  }
  std::string missing(const std::string& who) const {
    return timeout_text() + "; missing: " + who + "; look whether it runs and can be reached";
  }
  std::string timeout_text() const {
    char limit[32];
    std::snprintf(limit, sizeof limit, "%g s", connect_timeout_);
    return members_.head() + " did not connect within " + limit;
  }
  template <class F>
  void for_all(F f) const {
    for (uint32_t r = 0; r < members_.size; ++r)
      if (r != members_.rank) f(r);
  }

  // Gloo's thread starts here, and inherits the mask and the class.
  void open_device(const std::string& address) {
    const SigpipeBlock block(SigpipeBlock::What::kAll);
    const SchedBatchScope sched_batch;
    device_ = transport::tcp::CreateDevice(transport::tcp::attr(address.c_str()));
  }

  // NULL: somewhere it failed; failure_ says how.
  std::unique_ptr<PeerLinks> attempt() {
    const auto context =
        device_->createContext(static_cast<int>(members_.rank), static_cast<int>(members_.size));
    const Connections connections = exchange_ports(*context);
    ConnectOutcome connect_outcome(host_, store_, key("connected"));
    std::unique_ptr<PeerLinks> links;
    failure_.clear();
    try {
      links = connect(context, connections, connect_outcome);
    } catch (const std::exception& e) {
      failure_ = connect_outcome.reason();  // whatever else happened is but its consequence
      if (failure_.empty()) failure_ = members_.names[members_.rank] + ": " + e.what();
      connect_outcome.failed(failure_);
    }
    if (!all_succeeded()) return nullptr;
    connect_outcome.succeeded();
    return links;
  }
  // That one step of an attempt may take. Rarely needed, for most failures are told; more each time, for a machine that has too
  // much to do.
  double attempt_seconds() const {
    return std::min(std::max(0.5, connect_timeout_ / 4), 1 + 0.1 * attempt_);
  }
  // Before the next attempt, for the store must hold what all attempts of a minute publish.
  std::chrono::milliseconds pause() const {
    return std::chrono::milliseconds(std::min(10 * (attempt_ + 1), 250));
  }

  // Opens a port for each other rank, and learns of theirs.
  Connections exchange_ports(transport::Context& context) const {
    Connections connections(members_.size);
    try {
      if (attempt_ > 0 && Clock::now() >= deadline_) fail(PLAIT_ERR_PEER, last_failure_text());
      set("ports", open_ports(context, connections));
    } catch (...) {
      withdraw();
      throw;
    }
    for_all([&](uint32_t r) {
      const std::string ports = get("ports", r);
      if (ports.empty())
        fail(PLAIT_ERR_PEER, attempt_ > 0 ? last_failure_text()
                                          : members_.head() + ": " + members_.names[r] +
                                                " opens no ports; see what it says");
      const size_t one = ports.size() / (members_.size - 1);  // NOLINT(*.DivideZero): r is another
      // The addresses of rank r, which leaves out itself.
      const char* at = ports.data() + one * (members_.rank - (members_.rank > r ? 1 : 0));
      connections[r].other.assign(at, at + one);
    });
    return connections;
  }
  // No ports: the others need not wait for this rank.
  void withdraw() const noexcept {
    try {
      set("ports", "");
    } catch (const Error& e) {
      host_.raw()->error_free(e.take());
    } catch (const std::bad_alloc&) {
    }
  }
  std::string last_failure_text() const {
    return timeout_text() + " in " + std::to_string(attempt_) +
           " attempts, the last of which said: " + failure_ +
           "; look whether the ranks reach each other and nobody else visits their ports";
  }
  std::string open_ports(transport::Context& context, Connections& connections) const {
    // Gloo waits five times as long for a connection.
    context.setTimeout(std::chrono::milliseconds(static_cast<int64_t>(attempt_seconds() * 200)));
    std::string own;
    for_all([&](uint32_t r) {
      connections[r].own = context.createPair(static_cast<int>(r))->address().bytes();
      own.append(connections[r].own.begin(), connections[r].own.end());
    });
    if (own.size() > kMaxPortBytes)
      fail(PLAIT_ERR_UNIMPLEMENTED, members_.head() + " is too large for Gloo");
    return own;
  }
  std::unique_ptr<PeerLinks> connect(const std::shared_ptr<transport::Context>& context,
                                     const Connections& connections,
                                     ConnectOutcome& connect_outcome) const {
    const auto pair = [&](uint32_t r) -> transport::Pair& {
      return *context->getPair(static_cast<int>(r));
    };
    {
      // Gloo waits for a peer in a way that only the end of the pair ends.
      const ConnectOutcome::OnFailure on_failure(connect_outcome, [&](const std::string&) {
        for_all([&](uint32_t r) { pair(r).close(); });
      });
      for_all([&](uint32_t r) { pair(r).connect(connections[r].other); });
    }
    auto sockets = duplicate_sockets(connections, timeout_);
    for_all([&](uint32_t r) {
      if (!sockets[r])
        fail(PLAIT_ERR_IO, members_.head() + " found no socket to " + members_.names[r]);
    });
    auto links = std::make_unique<PeerLinks>(members_, context, std::move(sockets));
    authenticate(*links, connect_outcome);
    return links;
  }

  Digest proof(uint32_t from, uint32_t to) const {
    return hmac(secret_, "plait gloo " + std::to_string(attempt_) + " " + std::to_string(from) +
                             " " + std::to_string(to));
  }
  void authenticate(PeerLinks& links, ConnectOutcome& connect_outcome) const {
    const ConnectOutcome::OnFailure on_failure(
        connect_outcome, [&](const std::string& why) { links.fail_all(why); });
    static const std::string what = "the first exchange";
    std::vector<Digest> mine(members_.size), theirs(members_.size);
    MessageBatch all(links, what, after(attempt_seconds()));
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

  // All ranks agree on the outcome, whoever it was that failed.
  bool all_succeeded() {
    set("outcome", failure_.empty() ? "ok" : failure_.substr(0, 1000));
    for_all([&](uint32_t r) {
      const std::string outcome = get("outcome", r);
      if (outcome != "ok" && failure_.empty()) failure_ = outcome;
    });
    return failure_.empty();
  }

  const Members& members_;
  const Host& host_;
  const Store& store_;
  const double connect_timeout_, timeout_;
  const Clock::time_point deadline_;
  std::string secret_;
  std::shared_ptr<transport::Device> device_;
  int attempt_ = 0;
  std::string failure_;  // of the last attempt; "": it has none so far
};

}  // namespace

std::unique_ptr<PeerLinks> rendezvous(const Members& members, const Host& host, const Store& store,
                                      const std::string& interface, double connect_timeout,
                                      double timeout) {
  if (members.size == 1) return std::make_unique<PeerLinks>(members, nullptr, std::vector<Fd>(1));
  return Rendezvous(members, host, store, connect_timeout, timeout).run(interface);
}

}  // namespace plait::comm_gloo

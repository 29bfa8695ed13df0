#include "plugins/comm/gloo/rendezvous.hpp"

#include <gloo/transport/address.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "kit/hmac.hpp"
#include "plugins/comm/gloo/connect_outcome.hpp"
#include "plugins/comm/gloo/sched_batch_scope.hpp"
#include "plugins/comm/gloo/sigpipe.hpp"

namespace plait::comm_gloo {
namespace {

std::string new_secret() {
  try {
    return kit::random_bytes(32);
  } catch (const std::system_error& e) {
    fail(PLAIT_ERR_IO, std::string("[gloo] the system provides no random numbers: ") + e.what());
  }
}

namespace transport = ::gloo::transport;
using comm_support::Members;

using Connections = std::vector<Connection>;  // (R); the entry of this rank is empty

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
    if (members_.rank == 0) store_.set("gloo.secret", new_secret());
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
  // Keys of this attempt, and of a rank in this attempt.
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
    return timeout_text() + "; missing: " + who + "; check that it is running and reachable";
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

  // Gloo's thread starts here and inherits the signal mask and the scheduling class.
  void open_device(const std::string& address) {
    const SigpipeBlock block(SigpipeBlock::What::kAll);
    const SchedBatchScope sched_batch;
    device_ = transport::tcp::CreateDevice(transport::tcp::attr(address.c_str()));
  }

  // NULL: the attempt failed on some rank; failure_ has the reason.
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
      // The root cause: other errors on this rank only follow from it.
      failure_ = connect_outcome.reason();
      if (failure_.empty()) failure_ = members_.names[members_.rank] + ": " + e.what();
      connect_outcome.failed(failure_);
    }
    if (!all_succeeded()) return nullptr;
    connect_outcome.succeeded();
    return links;
  }
  // The time limit of one step of an attempt. Rarely reached, because most failures are reported;
  // longer with each attempt, for a machine that is overloaded.
  double attempt_seconds() const {
    return std::min(std::max(0.5, connect_timeout_ / 4), 1 + 0.1 * attempt_);
  }
  // Pauses before the next attempt: the store must hold everything that the attempts of a minute
  // publish.
  std::chrono::milliseconds pause() const {
    return std::chrono::milliseconds(std::min(10 * (attempt_ + 1), 250));
  }

  // Opens a port for each other rank and learns the ports of the others.
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
                                                " opens no ports; see its log");
      // NOLINTNEXTLINE(*.DivideZero): r is another rank.
      const size_t one = ports.size() / (members_.size - 1);
      // The addresses of rank r, which has none for itself.
      const char* at = ports.data() + one * (members_.rank - (members_.rank > r ? 1 : 0));
      connections[r].other.assign(at, at + one);
    });
    return connections;
  }
  // Publishes an empty list: the other ranks need not wait for this one.
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
           " attempts; last failure: " + failure_ +
           "; check that the ranks can reach each other and that no other program connects to "
           "their ports";
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
      // Gloo's wait for a peer ends only when the pair is closed.
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

  kit::Digest proof(uint32_t from, uint32_t to) const {
    return kit::hmac(secret_, "plait gloo " + std::to_string(attempt_) + " " +
                                  std::to_string(from) + " " + std::to_string(to));
  }
  void authenticate(PeerLinks& links, ConnectOutcome& connect_outcome) const {
    const ConnectOutcome::OnFailure on_failure(
        connect_outcome, [&](const std::string& why) { links.fail_all(why); });
    static const std::string what = "the first exchange";
    std::vector<kit::Digest> mine(members_.size), theirs(members_.size);
    MessageBatch all(links, what, after(attempt_seconds()));
    for_all([&](uint32_t r) {
      mine[r] = proof(members_.rank, r);
      all.send(r, 0, mine[r].data(), mine[r].size());
      all.receive(r, 0, theirs[r].data(), theirs[r].size());
    });
    all.wait();
    for_all([&](uint32_t r) {
      if (!kit::equal_constant_time(kit::text_of(theirs[r]), kit::text_of(proof(r, members_.rank))))
        fail(PLAIT_ERR_PEER, members_.head() + ": the process that answers as " +
                                 members_.names[r] + " does not know the group's secret");
    });
  }

  // All ranks agree on the outcome, whichever rank failed.
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
  std::string failure_;  // of the last attempt; "" if there was none
};

}  // namespace

std::unique_ptr<PeerLinks> rendezvous(const Members& members, const Host& host, const Store& store,
                                      const std::string& interface, double connect_timeout,
                                      double timeout) {
  if (members.size == 1) return std::make_unique<PeerLinks>(members, nullptr, std::vector<Fd>(1));
  return Rendezvous(members, host, store, connect_timeout, timeout).run(interface);
}

}  // namespace plait::comm_gloo

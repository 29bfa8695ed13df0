#include "plugins/comm/gloo/rendezvous.hpp"

#include <sys/eventfd.h>

#include <cstdio>

#include "plugins/comm/gloo/connect_outcome.hpp"
#include "plugins/comm/gloo/handshake.hpp"
#include "plugins/comm/gloo/pairs.hpp"
#include "plugins/comm/gloo/sched_batch_scope.hpp"
#include "plugins/comm/gloo/sigpipe.hpp"

namespace plait::comm_gloo {
namespace {

using comm_support::Members;

constexpr size_t kMostOutcomeBytes = 1000;  // Store::get() takes 1024

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
    const Listener listener = open_listener(interface);
    if (members_.rank == 0) store_.set("gloo.secret", random_bytes(32));
    set("address", listener.address);
    std::vector<std::string> addresses(members_.size);
    for_all([&](uint32_t r) { addresses[r] = address_of(r); });
    // Behind the addresses: a rank 0 that does not listen has laid down none.
    const std::string secret = store_.get("gloo.secret", missing(members_.names[0]));

    ConnectOutcome connect_outcome(host_, store_, "gloo.connected", members_.head());
    std::unique_ptr<PeerLinks> links;
    std::string failure;
    std::exception_ptr error;  // of this rank
    try {
      links = connect(secret, listener, addresses, connect_outcome);
    } catch (const std::exception& e) {
      // The root cause: other errors on this rank only follow from it.
      failure = connect_outcome.reason();
      if (failure.empty()) {
        failure = members_.names[members_.rank] + ": " + e.what();
        error = std::current_exception();
      }
      connect_outcome.failed(failure);
    }
    failure = outcome_of_all(failure);
    if (error) std::rethrow_exception(error);
    if (!failure.empty()) fail(PLAIT_ERR_PEER, members_.head() + " did not connect: " + failure);
    connect_outcome.succeeded();
    return links;
  }

 private:
  void set(const char* what, const std::string& value) const {
    store_.set(key(what, members_.rank), value);
  }
  std::string get(const char* what, uint32_t rank) const {
    return store_.get(key(what, rank), missing(members_.names[rank]));
  }
  static std::string key(const char* what, uint32_t rank) {
    return std::string("gloo.") + what + "." + std::to_string(rank);
  }
  std::string missing(const std::string& who) const {
    char limit[32];
    std::snprintf(limit, sizeof limit, "%g s", connect_timeout_);
    return members_.head() + " did not connect within " + limit + "; missing: " + who +
           "; check that it is running and reachable";
  }
  std::string missing(const Connections& connections) const {
    std::string text = missing(connections.missing);
    if (connections.dropped > 0)
      text += "; " + std::to_string(connections.dropped) +
              " connections to this rank were dropped, the last one because " +
              connections.last_drop;
    return text;
  }
  template <class F>
  void for_all(F f) const {
    for (uint32_t r = 0; r < members_.size; ++r)
      if (r != members_.rank) f(r);
  }

  Listener open_listener(const std::string& interface) const {
    try {
      return listen_on(listen_address(interface, members_.hosts[members_.rank], members_.hosts));
    } catch (...) {
      withdraw();
      throw;
    }
  }
  // Publishes no address: the other ranks need not wait for this one.
  void withdraw() const noexcept {
    try {
      store_.try_set(key("address", members_.rank).c_str(), "");
    } catch (const std::bad_alloc&) {
    }
  }
  std::string address_of(uint32_t rank) const {
    std::string address = get("address", rank);
    if (address.empty())
      fail(PLAIT_ERR_PEER,
           members_.head() + ": " + members_.names[rank] + " does not listen; see its log");
    return address;
  }

  std::unique_ptr<PeerLinks> connect(const std::string& secret, const Listener& listener,
                                     const std::vector<std::string>& addresses,
                                     ConnectOutcome& connect_outcome) const {
    Connections connections;
    {
      const Fd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      if (!stop) fail_io("cannot make an event");
      const ConnectOutcome::OnFailure on_failure(
          connect_outcome, [&](const std::string&) { eventfd_write(stop.get(), 1); });
      connections = connect_members(members_, secret, listener.socket.get(), addresses, stop.get(),
                                    deadline_);
    }
    if (!connections.missing.empty()) fail(PLAIT_ERR_PEER, missing(connections));
    for_all([&](uint32_t r) { tune(connections.sockets[r].get(), timeout_); });
    auto context = make_pairs(connections.sockets);
    return std::make_unique<PeerLinks>(members_, std::move(context),
                                       std::move(connections.sockets));
  }

  // Gloo's thread starts here and inherits the signal mask and the scheduling class.
  std::shared_ptr<::gloo::transport::Context> make_pairs(const std::vector<Fd>& sockets) const {
    const SigpipeBlock block(SigpipeBlock::What::kAll);
    const SchedBatchScope sched_batch;
    try {
      return pairs_over(sockets, static_cast<int>(members_.rank));
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      fail(PLAIT_ERR_IO,
           members_.head() + " cannot be set up in Gloo: " + e.what() +
               "; a group takes a thread, and up to three descriptors for each member "
               "(ulimit -u, ulimit -n)");
    }
  }

  // All ranks agree on whether all are connected. A rank that is not waits for none.
  std::string outcome_of_all(std::string failure) const {
    set("outcome", failure.substr(0, kMostOutcomeBytes));
    for (uint32_t r = 0; r < members_.size && failure.empty(); ++r)
      if (r != members_.rank) failure = get("outcome", r);
    return failure;
  }

  const Members& members_;
  const Host& host_;
  const Store& store_;
  const double connect_timeout_, timeout_;
  const Clock::time_point deadline_;
};

}  // namespace

std::unique_ptr<PeerLinks> rendezvous(const Members& members, const Host& host, const Store& store,
                                      const std::string& interface, double connect_timeout,
                                      double timeout) {
  if (members.size == 1) return std::make_unique<PeerLinks>(members, nullptr, std::vector<Fd>(1));
  return Rendezvous(members, host, store, connect_timeout, timeout).run(interface);
}

}  // namespace plait::comm_gloo

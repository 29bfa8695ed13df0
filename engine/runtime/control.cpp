#include "engine/runtime/control.hpp"

#include <poll.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/control/auth.hpp"
#include "engine/runtime/control/client.hpp"
#include "engine/runtime/control/identity.hpp"
#include "engine/runtime/control/job_state.hpp"
#include "engine/runtime/control/local_control.hpp"
#include "engine/runtime/control/rendezvous.hpp"
#include "engine/runtime/control/server.hpp"

namespace plait::runtime {

using namespace control;

struct Control::State {
  // Created in this order and destroyed in reverse: this rank leaves before it stops serving the
  // others.
  Fd listener;
  std::unique_ptr<Server> server;  // of rank 0
  std::unique_ptr<Client> client;  // of every rank of a job with several ranks
  std::unique_ptr<LocalControl> local;
  std::vector<Peer> peers;
  double connect_timeout = 0, timeout = 0;

  JobTermination& termination() { return client ? client->termination() : local->termination(); }
};

namespace {

// The connection information that rank 0 publishes and uses itself. With a rendezvous file the
// address is loopback if no other machine takes part.
JoinInfo make_join_info(const Job& job, const Rendezvous& rendezvous, Fd& own) {
  const bool one_machine = job.local_size == job.size;
  if (job.listen_fd < 0 && rendezvous.path.empty())
    own = listen_at(resolve_rendezvous_host(rendezvous.host, rendezvous.port, one_machine));
  else if (job.listen_fd < 0 && one_machine)
    own = listen_at(resolve("127.0.0.1", 0));
  else if (job.listen_fd < 0)
    own = listen_at({address_of_machine()});
  const Address address = address_of_listener(own ? own.get() : job.listen_fd);
  JoinInfo join_info{host_of(address), port_of(address), job.secret, random_bytes(kRunSize)};
  if (!rendezvous.path.empty()) join_info.secret = random_secret();
  return join_info;
}

// Rank 0's side: its server, and the file in which it publishes the address.
struct Served {
  std::optional<JoinInfo> own;
  std::optional<RendezvousFile> file;
};

void serve(const Job& job, const Rendezvous& rendezvous, Fd& listener,
           std::unique_ptr<Server>& server, Served& to, ControlTimes times, Log& log) {
  to.own = make_join_info(job, rendezvous, listener);
  const ServerConfig config{static_cast<uint32_t>(job.size),
                            job.connect_timeout,
                            job.timeout,
                            to.own->secret,
                            to.own->run,
                            host_and_port(to.own->host, to.own->port),
                            times};
  server = std::make_unique<Server>(config, listener ? listener.get() : job.listen_fd, log);
  if (!rendezvous.path.empty()) to.file.emplace(rendezvous.path, *to.own);
}

// Until everything is sent and rank 0 has closed the connection, as far as there is time.
void send_last_words(Connection& connection, const std::string& bytes, Time deadline) {
  connection.put(bytes);
  for (bool shut = false; Clock::now() < deadline;) {
    if (!shut && !connection.send().empty()) return;
    if (!shut && connection.all_sent()) {
      connection.shut();
      shut = true;
    }
    pollfd one{connection.fd(), connection.events(), 0};
    poll(&one, 1, poll_ms(deadline, Clock::now()));
    if (!connection.receive().empty()) return;
  }
}

void check_key(const std::string& key) {
  if (const std::string fault = key_error(key); !fault.empty())
    fail_invalid("[control] the key '" + printable(shortened(key, kMaxKey)) + "' " + fault);
}

}  // namespace

Control::Control(const ControlConfig& config, Log& log) : state_(std::make_unique<State>()) {
  const Job& job = config.job;
  const Rendezvous rendezvous = parse_rendezvous(job);
  state_->connect_timeout = job.connect_timeout;
  state_->timeout = job.timeout;
  if (job.size == 1) {
    state_->local = std::make_unique<LocalControl>(own_name(config));
    state_->peers.push_back(own_arrival(config).peer);
    return;
  }
  const Time deadline = Clock::now() + to_duration(job.connect_timeout);
  Served served;
  if (job.rank == 0)
    serve(job, rendezvous, state_->listener, state_->server, served, config.times, log);
  if (served.own)
    log.debug([&] {
      return "[control] rank 0 waits for all " + std::to_string(job.size) + " ranks at " +
             host_and_port(served.own->host, served.own->port) +
             (rendezvous.path.empty() ? "" : ", which it tells in " + rendezvous.path);
    });
  JoinedServer joined = control::join(job, rendezvous, served.own, deadline);
  log.debug([&] {
    return "[control] rank " + std::to_string(job.rank) + " has reached rank 0 at " + joined.where;
  });
  state_->client = std::make_unique<Client>(config, std::move(joined), deadline, log);
  state_->peers = state_->client->wait_for_ranks();
}

Control::~Control() = default;

void Control::announce_failure(const Job& job, std::string_view text, Log& log) {
  constexpr auto kPatience = std::chrono::seconds(10);
  constexpr auto kPause = std::chrono::milliseconds(10);
  if (job.size == 1 || job.rendezvous.empty()) return;
  const Rendezvous rendezvous = parse_rendezvous(job);
  const Time deadline = Clock::now() + kPatience;
  // As in a State: the server goes before its socket.
  Fd listener;
  std::unique_ptr<Server> server;
  Served served;
  if (job.rank == 0) serve(job, rendezvous, listener, server, served, {}, log);
  {
    const JoinedServer joined = control::join(job, rendezvous, served.own, deadline);
    send_last_words(*joined.connection,
                    FrameWriter(MessageKind::kAbort).text(shortened(text, kMaxText)).done(),
                    deadline);
  }
  while (server && server->met() < static_cast<uint32_t>(job.size) && Clock::now() < deadline)
    std::this_thread::sleep_for(kPause);
}

const std::vector<Peer>& Control::peers() const { return state_->peers; }
double Control::connect_timeout() const { return state_->connect_timeout; }
double Control::timeout() const { return state_->timeout; }

void Control::set(const std::string& key, std::string_view value) {
  check_key(key);
  if (value.size() > kMaxValue)
    fail_invalid(strf("[control] the value of '%s' has %zu bytes, expected at most %zu",
                      key.c_str(), value.size(), kMaxValue));
  state_->client ? state_->client->set(key, value) : state_->local->set(key, value);
}

std::string Control::get(const std::string& key, double seconds) {
  check_key(key);
  return state_->client ? state_->client->get(key, seconds) : state_->local->get(key, seconds);
}

std::optional<std::string> Control::get_within(const std::string& key, double seconds) {
  check_key(key);
  return state_->client ? state_->client->get_within(key, seconds)
                        : state_->local->get_within(key, seconds);
}

void Control::forget(const std::string& key) {
  check_key(key);
  state_->client ? state_->client->forget(key) : state_->local->forget(key);
}

void Control::on_end(std::function<void(const std::string& reason)> call) {
  state_->termination().on_end(std::move(call));
}

std::string Control::end_reason() const { return state_->termination().get().text; }

void Control::abort(std::string_view text) noexcept {
  state_->client ? state_->client->abort(text) : state_->local->abort(text);
}

void Control::begin_call(const char* what) noexcept {
  if (state_->client) state_->client->begin_call(what);
}

void Control::watch(const std::string& group, const CollectiveLog& calls) {
  if (state_->client) state_->client->watch(group, calls);
}

void Control::unwatch() noexcept {
  if (state_->client) state_->client->unwatch();
}

void Control::at_step(int64_t step) noexcept {
  if (state_->client) state_->client->at_step(step);
}

}  // namespace plait::runtime

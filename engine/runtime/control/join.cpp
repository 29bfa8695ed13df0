#include "engine/runtime/control/join.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/runtime/control/auth.hpp"
#include "engine/runtime/control/messages.hpp"

namespace plait::runtime::control {
namespace {

constexpr auto kAttemptTimeout = std::chrono::seconds(5);  // timeout of one attempt
constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(250);

// An attempt failed, but a later one may succeed. PLAIT_ERR_PEER thrown below means the same.
[[noreturn]] void fail_attempt(std::string why) { fail(PLAIT_ERR_PEER, std::move(why)); }

// Rank 0 refused this rank: further attempts are useless.
struct Refused {
  EndReason end;
};

Frame receive(Connection& connection, Time deadline) {
  for (;;) {
    if (auto frame = connection.next()) return *std::move(frame);
    const Time now = Clock::now();
    if (now >= deadline) fail_attempt("it does not answer");
    pollfd one{connection.fd(), connection.events(), 0};
    if (poll(&one, 1, poll_ms(deadline, now)) < 0 && errno != EINTR) fail_io("poll", errno);
    std::string closed = connection.send();
    if (closed.empty()) closed = connection.receive();
    if (closed.empty()) continue;
    // A frame that arrived before the close is more informative.
    if (auto frame = connection.next()) return *std::move(frame);
    fail_attempt("it closed the connection");
  }
}

// Returns rank 0's timeout.
double shake_hands(Connection& connection, const Job& job, const JoinInfo& join_info,
                   Time deadline) {
  Challenge c;
  c.rank = static_cast<uint32_t>(job.rank);
  c.size = static_cast<uint32_t>(job.size);
  c.client_nonce = random_bytes(kNonceSize);
  connection.put(encode(Hello{c.rank, c.size, c.client_nonce}));
  const Greeting greeting = decode_greeting(receive(connection, deadline));
  c.run = greeting.run;
  c.server_nonce = greeting.nonce;
  if (!join_info.run.empty() && c.run != join_info.run) fail_attempt("it belongs to another run");
  if (!equal_constant_time(greeting.proof, proof(join_info.secret, c, Side::kServer)))
    fail_attempt("it does not know this job's secret");
  connection.put(
      FrameWriter(MessageKind::kProof).raw(proof(join_info.secret, c, Side::kClient)).done());
  connection.trust();
  const Frame answer = receive(connection, deadline);
  if (answer.kind == MessageKind::kEnd) throw Refused{decode_end(answer)};
  if (answer.kind != MessageKind::kWelcome) fail_data("[control] an unexpected message");
  PayloadReader r(answer.payload);
  const double timeout = static_cast<double>(r.u64()) / 1000;
  r.done();
  return timeout;
}

JoinedServer attempt(const Job& job, const JoinInfo& join_info, Time deadline) {
  std::string tried;
  for (const Address& address :
       resolve_rendezvous_host(join_info.host, join_info.port, job.local_size == job.size)) {
    try {
      auto connection = std::make_unique<Connection>(connect_to(address, deadline), kMaxUnproven);
      const double timeout = shake_hands(*connection, job, join_info, deadline);
      configure_socket(connection->fd(), std::min(job.timeout, timeout));
      return {std::move(connection), timeout, text_of(address)};
    } catch (const Error& e) {
      const std::string why =
          e.code() == PLAIT_ERR_DATA ? "it is not a rank of this job" : e.text();
      tried += (tried.empty() ? "" : ", ") + text_of(address) + " (" + why + ")";
    }
  }
  fail_attempt("tried " + tried);
}

// The first rank to start finds no file, or one of an earlier run.
JoinInfo find_join_info(const Job& job, const Rendezvous& rendezvous) {
  if (rendezvous.path.empty()) return {rendezvous.host, rendezvous.port, job.secret, ""};
  auto found = read_rendezvous_file(rendezvous.path);
  if (!found) fail_attempt("there is no file " + rendezvous.path);
  return *std::move(found);
}

}  // namespace

JoinedServer join(const Job& job, const Rendezvous& rendezvous, const std::optional<JoinInfo>& own,
                  Time deadline) {
  std::string why;
  for (Clock::duration pause = kFirstPause;;
       pause = std::min<Clock::duration>(2 * pause, kLongestPause)) {
    try {
      const JoinInfo join_info = own ? *own : find_join_info(job, rendezvous);
      return attempt(job, join_info, std::min(deadline, Clock::now() + kAttemptTimeout));
    } catch (const Refused& refused) {
      fail(refused.end.code, "[control] " + refused.end.text);
    } catch (const Error& e) {
      // An unsafe file remains unsafe; other errors may be temporary.
      if (e.code() != PLAIT_ERR_PEER && e.code() != PLAIT_ERR_DATA &&
          !(e.code() == PLAIT_ERR_IO && rendezvous.path.empty()))
        throw;
      // An attempt cut short by the deadline is less informative than the one before.
      if (why.empty() || Clock::now() < deadline) why = without_part(e.text());
    }
    const Time now = Clock::now();
    if (now >= deadline) break;
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
  }
  fail(PLAIT_ERR_PEER,
       strf("[control] rank %d of %d did not reach rank 0 at %s within %g s: %s; check that rank "
            "0 runs and is reachable",
            job.rank, job.size, rendezvous.text.c_str(), job.connect_timeout, why.c_str()));
}

}  // namespace plait::runtime::control

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

constexpr auto kPatience = std::chrono::seconds(5);  // for one attempt
constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(250);

// Why an attempt failed, and the next one may not. PLAIT_ERR_PEER from anywhere below.
[[noreturn]] void fail_attempt(std::string why) { fail(PLAIT_ERR_PEER, std::move(why)); }

// What rank 0 said: no further attempt helps.
struct Refused {
  End end;
};

Frame receive(Line& line, Time deadline) {
  for (;;) {
    if (auto frame = line.next()) return *std::move(frame);
    const Time now = Clock::now();
    if (now >= deadline) fail_attempt("it does not answer");
    pollfd one{line.fd(), line.events(), 0};
    if (poll(&one, 1, poll_ms(deadline, now)) < 0 && errno != EINTR) fail_io("poll", errno);
    std::string closed = line.send();
    if (closed.empty()) closed = line.receive();
    if (closed.empty()) continue;
    // What it said before is worth more.
    if (auto frame = line.next()) return *std::move(frame);
    fail_attempt("it closed the connection");
  }
}

// Returns rank 0's timeout.
double shake_hands(Line& line, const Job& job, const Invitation& invitation, Time deadline) {
  Challenge c;
  c.rank = static_cast<uint32_t>(job.rank);
  c.size = static_cast<uint32_t>(job.size);
  c.client_nonce = random_bytes(kNonceSize);
  line.put(encode(Hello{c.rank, c.size, c.client_nonce}));
  const Greeting greeting = decode_greeting(receive(line, deadline));
  c.run = greeting.run;
  c.server_nonce = greeting.nonce;
  if (!invitation.run.empty() && c.run != invitation.run)
    fail_attempt("rank 0 of another run is there");
  if (!same(greeting.proof, proof(invitation.secret, c, Side::kServer)))
    fail_attempt("who is there does not know this job's secret");
  line.put(Writer(Kind::kProof).raw(proof(invitation.secret, c, Side::kClient)).done());
  line.trust();
  const Frame answer = receive(line, deadline);
  if (answer.kind == Kind::kEnd) throw Refused{decode_end(answer)};
  if (answer.kind != Kind::kWelcome) fail_data("[control] a message that was not expected here");
  Reader r(answer.payload);
  const double timeout = static_cast<double>(r.u64()) / 1000;
  r.done();
  return timeout;
}

Joined attempt(const Job& job, const Invitation& invitation, Time deadline) {
  std::string tried;
  for (const Address& address :
       resolve_meeting(invitation.host, invitation.port, job.local_size == job.size)) {
    try {
      auto line = std::make_unique<Line>(connect_to(address, deadline), kMostUnproven);
      const double timeout = shake_hands(*line, job, invitation, deadline);
      tune(line->fd(), std::min(job.timeout, timeout));
      return {std::move(line), timeout, text_of(address)};
    } catch (const Error& e) {
      const std::string why =
          e.code() == PLAIT_ERR_DATA ? "who is there is no rank of ours" : e.text();
      tried += (tried.empty() ? "" : ", ") + text_of(address) + " (" + why + ")";
    }
  }
  fail_attempt("tried " + tried);
}

// Who starts first finds no file, or one of an earlier run.
Invitation invitation_of(const Job& job, const Meeting& meeting) {
  if (meeting.path.empty()) return {meeting.host, meeting.port, job.secret, ""};
  auto found = read_meeting_file(meeting.path);
  if (!found) fail_attempt("there is no file " + meeting.path);
  return *std::move(found);
}

}  // namespace

Joined join(const Job& job, const Meeting& meeting, const std::optional<Invitation>& own,
            Time deadline) {
  std::string why;
  for (Clock::duration pause = kFirstPause;;
       pause = std::min<Clock::duration>(2 * pause, kLongestPause)) {
    try {
      const Invitation invitation = own ? *own : invitation_of(job, meeting);
      return attempt(job, invitation, std::min(deadline, Clock::now() + kPatience));
    } catch (const Refused& refused) {
      fail(refused.end.code, "[control] " + refused.end.text);
    } catch (const Error& e) {
      // A file that is not safe stays so; the rest may come right.
      if (e.code() != PLAIT_ERR_PEER && e.code() != PLAIT_ERR_DATA &&
          !(e.code() == PLAIT_ERR_IO && meeting.path.empty()))
        throw;
      // An attempt that was cut short says less than the one before.
      if (why.empty() || Clock::now() < deadline) why = e.text();
    }
    const Time now = Clock::now();
    if (now >= deadline) break;
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
  }
  const std::string prefix = "[control] ";
  if (starts_with(why, prefix)) why = why.substr(prefix.size());
  fail(PLAIT_ERR_PEER,
       strf("[control] rank %d of %d did not reach rank 0 at %s within %g s: %s; see whether rank "
            "0 runs and can be reached",
            job.rank, job.size, meeting.text.c_str(), job.connect_timeout, why.c_str()));
}

}  // namespace plait::runtime::control

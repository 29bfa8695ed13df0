// The control channel of a job: ranks connect through it, exchange small values, and learn when
// another rank is lost.
//
// Rank 0 serves, every rank (rank 0 too) is a client over TCP. Both sides prove that they know the
// job's secret (HMAC-SHA256 over both nonces, run id, rank and size) before the first payload byte.
// R ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/runtime/collective_log.hpp"
#include "engine/runtime/job.hpp"

namespace plait::runtime {

// Times of the control channel in seconds that no user sets: they suit every network. Tests that
// wait for them make them short.
struct ControlTimes {
  double heartbeat = 1;       // between heartbeats; a quarter of the timeout if that is less
  double authentication = 5;  // for a connection to prove that it knows the secret
  double notice = 10;         // before rank 0 says, once, which ranks it still waits for
  double leave = 3;           // between the first rank that leaves and the last
  double linger = 5;          // how long rank 0 serves ranks that stay when it leaves
  double late = 1;            // how long it tells ranks that come late why the rendezvous failed
  double report = 1;          // for rank 0 to tell the other ranks that the rendezvous timed out
};

struct ControlConfig {
  Job job;
  std::string name;  // the rank's name in messages: "rank 3 (pipeline 1, data 0, tensor 1)"
  // Texts that must be equal on all ranks: {"engine version", "0.1.0"}, {"configuration",
  // "1f3a.."}, {"plugin layer-dense", "0.1.0 8c1e.."}. Compared during the rendezvous.
  std::vector<std::pair<std::string, std::string>> identity;
  ControlTimes times = {};
};

// The description that each rank sends of itself when it connects.
struct Peer {
  std::string name;
  std::string host;     // equal texts: the same machine
  std::string process;  // host, process id and a random number; equal texts: the same process
};

class Control {
 public:
  // Returns when all ranks are connected and agree. Errors: PLAIT_ERR_PEER naming the ranks that
  // are missing after connect_timeout, or a rank that was lost meanwhile; PLAIT_ERR_CONFIG naming
  // every difference of identity (of 32 ranks at most), on every rank; PLAIT_ERR_INVALID for an
  // invalid rendezvous or a timeout of 0; PLAIT_ERR_IO for a port that is in use, or a rendezvous
  // file that other users may read or write. A job of one rank has no socket, file or thread.
  // [blocks: yes]
  Control(const ControlConfig& config, Log& log);
  // Says goodbye, so that the others do not treat this rank as lost. Rank 0 serves until all have
  // said goodbye, at most a few seconds.
  ~Control();
  // For a rank that failed before it could connect: tells the others that it won't come, and why.
  // Their Control then throws PLAIT_ERR_PEER "rank N aborted: TEXT". Rank 0 serves until every rank
  // has been told; at most 10 s. Errors: PLAIT_ERR_PEER if rank 0 cannot be reached in that time;
  // others as above. Nothing happens without other ranks or a rendezvous. [blocks: yes]
  static void announce_failure(const Job& job, std::string_view text, Log& log);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  const std::vector<Peer>& peers() const;  // (R)
  // The job's timeouts in seconds.
  double connect_timeout() const;
  double timeout() const;

  // Publishes a value (64 KiB at most) under an unused key (letters, digits, dots, 256 at most).
  // Errors: PLAIT_ERR_STATE if the key is in use; PLAIT_ERR_PEER if the job is over. [thread: any]
  void set(const std::string& key, std::string_view value);
  // Waits for a value. Errors: PLAIT_ERR_PEER after `seconds`, or with the reason if the job is
  // over. [thread: any; blocks: yes]
  std::string get(const std::string& key, double seconds);
  // The same, but nullopt if no rank had published the value after `seconds`: 0 to only look.
  // Returns after the reply of rank 0, so a little later.
  std::optional<std::string> get_within(const std::string& key, double seconds);
  // Tells rank 0 that no rank will read a value any more, so that it can be deleted. [thread: any]
  void forget(const std::string& key);

  // Sets the callback that runs once, on a thread of the channel, when the job ends because a rank
  // was lost, left early or aborted; it receives a text that names the rank and its last known
  // state ("rank 2 (...) is lost: its connection was closed; it ran as process 12 on HOST and was
  // last heard of in step 3"). If the job has already ended it runs immediately in the caller. It
  // must not block or destroy this object. Setting a new callback replaces the old one, an empty
  // one removes it; either waits for a running callback to return. [thread: any]
  //
  // A rank leaves early if others are still connected 3 s later (`times.leave`): at the normal end
  // of a run all ranks leave together, and a rank without further collectives may ignore it. A rank
  // that leaves because of an error calls abort() first.
  void on_end(std::function<void(const std::string& reason)> call);
  std::string end_reason() const;  // "" while the job runs
  // Tells all ranks that this one aborts, and why: they end with "rank N (...) aborted: TEXT". May
  // be called repeatedly, never throws.
  void abort(std::string_view text) noexcept;

  // Sets the current step of this rank, which is sent with the next heartbeat and appears in
  // messages about its loss. No lock. [thread: compute]
  void at_step(int64_t step) noexcept;
  // Records that this rank begins one of the calls that all ranks make in the same order. If the
  // n-th calls of two ranks differ, the job ends with a text that names both. what: a literal. No
  // lock. [thread: compute]
  void begin_call(const char* what) noexcept;
  // Reports these calls, which the caller keeps, with every heartbeat until unwatch(). If two
  // members of a group have started different calls, the job ends with a text that names both.
  // [thread: any]
  void watch(const std::string& group, const CollectiveLog& calls);
  void unwatch() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plait::runtime

// The control channel of a job: where ranks meet, publish small values for each other, and learn that one of them is gone.
//
// Rank 0 serves, every rank (rank 0 too) is a client over TCP. Both sides prove that they know the job's secret (HMAC-SHA256 over
// both nonces, run id, rank and size) before the first payload byte. R ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/runtime/collective_log.hpp"
#include "engine/runtime/job.hpp"

namespace plait::runtime {

struct ControlConfig {
  Job job;
  std::string name;  // how messages call this rank: "rank 3 (pipeline 1, data 0, tensor 1)"
  // What must be equal on all ranks, in words: {"engine version", "0.1.0"}, {"configuration", "1f3a.."}, {"plugin layer-dense",
  // "0.1.0 8c1e.."}. Compared when the ranks meet.
  std::vector<std::pair<std::string, std::string>> identity;
};

// What each rank says of itself when it arrives.
struct Peer {
  std::string name;
  std::string host;     // machine: equal texts share one
  std::string process;  // host, process id and a random number: equal texts share a process
};

class Control {
 public:
  // Returns when all ranks have met and agree. Errors: PLAIT_ERR_PEER naming the ranks that are missing after connect_timeout, or
  // the rank that went away meanwhile; PLAIT_ERR_CONFIG naming every difference of identity (of 32 ranks at most), on every rank;
  // PLAIT_ERR_INVALID for a rendezvous that makes no sense, or a timeout of 0; PLAIT_ERR_IO for a port that is taken, or a rendezvous
  // file that others may read or write. A job of one rank has no socket, file or thread. [blocks: yes]
  Control(const ControlConfig& config, Log& log);
  // Says goodbye: the others do not take it for a loss. Rank 0 serves until all have said so, at most a few seconds.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  const std::vector<Peer>& peers() const;  // (R)
  // Seconds, as the job has them.
  double connect_timeout() const;
  double timeout() const;

  // Publishes a value (64 KiB at most) under a key not yet taken (letters, digits, dots, 256 at most). Errors: PLAIT_ERR_STATE for
  // a key that is taken; PLAIT_ERR_PEER when the job is over. [thread: any]
  void set(const std::string& key, std::string_view value);
  // Waits for a value. Errors: PLAIT_ERR_PEER after `seconds`, or when the job is over, with the reason. [thread: any; blocks: yes]
  std::string get(const std::string& key, double seconds);
  // Says that nobody will ask for a value any more, so that rank 0 need not keep it. [thread: any]
  void forget(const std::string& key);

  // Called once, on a thread of the channel, when the job is over because a rank is lost, left early or aborted; with a text that
  // names the rank and what is known ("rank 2 (...) is lost: its connection was closed; it ran as process 12 on HOST and was last
  // heard of in step 3"). Called at once, on the caller's thread, when that has happened already. It must not block, nor destroy
  // this object. A new function takes the place of the one before, an empty one takes it away; either is back only when none is
  // running. [thread: any]
  //
  // A rank that leaves counts as early when others are still there 3 s later: at the normal end of a run all leave together, and
  // who has no more collectives before it may take no notice. A rank that leaves because of an error calls abort() first.
  void on_end(std::function<void(const std::string& reason)> call);
  std::string end_reason() const;  // "" while the job goes on
  // Tells all ranks that this one aborts, and why: they end with "rank N (...) aborted: TEXT". Repeatable, never throws.
  void abort(std::string_view text) noexcept;

  // Which step this rank is in; goes out with the next heartbeat and into messages about its loss. No lock. [thread: compute]
  void at_step(int64_t step) noexcept;
  // This rank begins one of the calls that all ranks make in the same order. When two ranks' n-th calls differ the job is over, with
  // a text that has both. what: a literal. No lock. [thread: compute]
  void begin_call(const char* what) noexcept;
  // Tells of these calls, which stay the caller's, with every heartbeat until unwatch(). When two members of a group are seen to have
  // started different ones the job is over, with a text that has both. [thread: any]
  void watch(const std::string& group, const CollectiveLog& calls);
  void unwatch() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plait::runtime

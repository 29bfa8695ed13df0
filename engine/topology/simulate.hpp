// Simulates a schedule: begin and end of each action, idle time of ranks, held micro-batches and
// messages in flight.
//
// Each rank runs its list in order, one action at a time. An action begins when the previous one
// has ended and its input has arrived; its message leaves when it has ended, or earlier, and
// arrives `transfer` later. Sending never blocks, and messages do not slow each other down. Times
// are in any unit. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/topology/schedule.hpp"

namespace plait::topology {

// For one micro-batch in one stage. A backward pass that is not split takes backward + weights.
struct StageCost {
  double forward = 1, backward = 1, weights = 1;
  // The part of these times after the pass has sent its message: gradients of inputs are sent
  // before the weight gradients are computed.
  double after_forward = 0, after_backward = 0;
};

struct Duration {
  double total = 0, sent = 0;  // from its begin to its end, and until its message leaves
  Duration(double time)
      : total(time), sent(time) {}  // for an action that sends at its end or not at all, as most do
  Duration(double all, double until_sent) : total(all), sent(until_sent) {}
};

// One per action of each rank, in the order of Schedule::actions: planned or measured.
using Durations = std::vector<std::vector<Duration>>;
// From the costs of each stage (S of them). Errors: PLAIT_ERR_INVALID for another number.
Durations durations(const Schedule& schedule, const std::vector<StageCost>& costs);
// The same cost for every stage.
Durations durations(const Schedule& schedule, const StageCost& cost);

struct Span {
  double begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

// A message and its times: departure, arrival, and the begin of the action that uses it.
struct Transfer {
  StageMessage message;
  double sent = 0, arrived = 0, used = 0;
};

// One direction between two ranks: its messages, and the maximal number of them sent and not yet
// used. With this number of buffers no sender waits. Messages of one kind on one link are used in
// the order in which they were sent.
struct Link {
  int32_t from = 0, to = 0;
  ActionKind kind = ActionKind::kForward;
  int32_t messages = 0, peak = 0;
  bool operator==(const Link&) const = default;
};

struct Timeline {
  std::vector<std::vector<Span>> spans;  // of each action, as in Schedule::actions
  double total = 0;                      // from the first action's begin to the last one's end
  std::vector<double> idle;  // per rank: the fraction of `total` in which it computes nothing
  double idle_fraction = 0;  // of all ranks together
  std::vector<LiveMicroBatches> live;  // of each rank
  std::vector<Transfer> transfers;     // by time of use
  std::vector<Link> links;             // by from, to, kind
};

// Errors: PLAIT_ERR_INVALID if the schedule is not complete, `times` do not have one entry per
// action, are negative or not finite, a message leaves after its action has ended, or the schedule
// deadlocks: then the text names each waiting rank, its action, and the action it waits for.
Timeline simulate(const Schedule& schedule, const Durations& times, double transfer = 0);

}  // namespace plait::topology

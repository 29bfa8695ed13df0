// Plays a schedule through: when each action begins and ends, how long ranks wait, what is held and what is on its way.
//
// Each rank runs its list in order and one action at a time. An action begins when the one before it is done and what it needs
// has arrived; what it hands on leaves when it is done, or already before, and arrives `transfer` later. Sending never blocks,
// and messages do not slow each other down. Times are in any unit. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/topology/schedule.hpp"

namespace plait::topology {

// Of one micro-batch in one stage. A backward pass that is not split takes backward + weights.
struct StageCost {
  double forward = 1, backward = 1, weights = 1;
  // What of these is still to do when the pass has sent its message: gradients leave before those of the weights are made.
  double after_forward = 0, after_backward = 0;
};

struct Duration {
  double total = 0, sent = 0;  // from its beginning to its end, and until its message leaves
  Duration(double time)
      : total(time), sent(time) {}  // of what leaves at its end, or sends nothing: most do
  Duration(double all, double until_sent) : total(all), sent(until_sent) {}
};

// One for each action of each rank, in the order of Schedule::actions: planned, or measured.
using Durations = std::vector<std::vector<Duration>>;
// From the costs of each stage (S of them). Errors: PLAIT_ERR_INVALID for another number.
Durations durations(const Schedule& schedule, const std::vector<StageCost>& costs);
// Every stage the same.
Durations durations(const Schedule& schedule, const StageCost& cost);

struct Span {
  double begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

// A message and its times: it left, it arrived, and the action that needs it began.
struct Transfer {
  Message message;
  double sent = 0, arrived = 0, used = 0;
};

// One direction between two ranks: its messages, and how many were sent and not yet used at once. This is the number of
// buffers with which no sender waits. Messages of one kind on one link are used in the order in which they were sent.
struct Link {
  int32_t from = 0, to = 0;
  ActionKind kind = ActionKind::kForward;
  int32_t messages = 0, peak = 0;
  bool operator==(const Link&) const = default;
};

struct Timeline {
  std::vector<std::vector<Span>> spans;  // of each action, as in Schedule::actions
  double total = 0;                      // from the first action's start to the last one's end
  std::vector<double> idle;  // of each rank: the share of `total` in which it computes nothing
  double idle_fraction = 0;  // of all ranks together
  std::vector<LiveMicroBatches> live;  // of each rank
  std::vector<Transfer> transfers;     // by time of use
  std::vector<Link> links;             // by from, to, kind
};

// Errors: PLAIT_ERR_INVALID when the schedule is not complete, `times` have another form than its actions, are negative or
// not finite, a message leaves after its action has ended, or the schedule stops for ever: then the text names each waiting
// rank, its action, and what it waits for.
Timeline simulate(const Schedule& schedule, const Durations& times, double transfer = 0);

// The messages that are sent and not yet used at time `at`.
std::vector<Message> in_flight(const Timeline& timeline, double at);

}  // namespace plait::topology

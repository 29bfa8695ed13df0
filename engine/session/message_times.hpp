// How long the messages between pipeline ranks take, from the calls of all ranks.
//
// A message takes from when both ends have made their calls until the receiver has it: a rank that
// waits for another one to compute does not count as time of the message. Clocks of ranks on
// several machines differ; a message then seems to take longer or shorter by that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/runtime/executor.hpp"

namespace plait::session {

// One end of a message. Messages from one rank to another, on one channel, arrive in order.
struct MessageEnd {
  int32_t from = 0, to = 0;  // ranks
  uint32_t channel = 0;
  bool sends = false;
  int64_t ready_ns = 0;    // the call that starts it began
  int64_t arrived_ns = 0;  // of a receiver: the call that waits for it ended
  bool operator==(const MessageEnd&) const = default;
};

// Of this rank, in order. offset_ns: what makes the clocks of all ranks comparable.
std::vector<MessageEnd> message_ends(const plan::Plan& plan,
                                     const std::vector<runtime::Executor::TimedCall>& calls,
                                     int64_t offset_ns);

// As text, for other ranks. Errors of the other: PLAIT_ERR_INTERNAL.
std::string text_of(const std::vector<MessageEnd>& ends);
std::vector<MessageEnd> message_ends(const std::string& text);

// Seconds of each message whose two ends are among those of all ranks.
std::vector<double> message_seconds(const std::vector<std::vector<MessageEnd>>& of_ranks);

}  // namespace plait::session

// Pipeline schedules: the order of computations on each rank. A schedule is data, made by pure
// functions; simulate.hpp computes its cost, schedule_svg.hpp draws it, and the runtime executes
// it.
//
// P ranks along the pipeline, V chunks on each, S = P * V stages (stages.hpp), M micro-batches of a
// step on each replica.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/topology/stages.hpp"

namespace plait::topology {

// The kind of computation. If the backward pass is split (Qi et al. 2023), kBackward computes the
// gradients of a stage's inputs, which the previous stage waits for, and kBackwardWeight the
// gradients of its weights, for which no stage waits. Else kBackward computes both.
enum class ActionKind : uint8_t { kForward, kBackward, kBackwardWeight };
char action_letter(ActionKind kind);  // F, B, W

struct Action {
  int32_t chunk = 0;
  ActionKind kind = ActionKind::kForward;
  int32_t micro = 0;
  bool operator==(const Action&) const = default;
};

enum class ScheduleKind {
  kForwardOnly,  // evaluation: no backward pass
  kGPipe,        // all forward, then all backward (Huang et al. 2019). Holds M micro-batches
  // one forward, one backward in turn (Narayanan et al. 2019). Rank p holds at most P - p; idle
  // time as GPipe
  k1F1B,
  // 1F1B over V chunks (Narayanan et al. 2021): 1/V of the idle time, V times the messages, more
  // held
  kInterleaved,
  // ZB-H1 (Qi et al. 2023): weight gradients fill the gaps of 1F1B; a rank holds at most P
  kZeroBubble,
};
const char* schedule_name(
    ScheduleKind method);  // "forward", "gpipe", "1f1b", "interleaved", "zero_bubble"
// Errors: PLAIT_ERR_CONFIG naming topology.schedule and the nearest name.
ScheduleKind schedule_kind_named(std::string_view name);

struct Schedule {
  ScheduleKind method = ScheduleKind::k1F1B;
  PipelineShape shape;
  int32_t micro_batches = 1;                 // M
  bool split_backward = false;               // B and W are separate actions
  std::vector<std::vector<Action>> actions;  // of each rank, in order
};

// The schedule of a method. Within a chunk, micro-batches ascend in every kind of action, in every
// method: gradients are summed in the same order whatever the schedule, and the micro-batches held
// by a chunk form a window, so micro-batch m can keep its activations in slot m % peak. Errors:
// PLAIT_ERR_CONFIG if V is not 1 for a method without chunks, a number is below 1, or there would
// be more than kMaxActions actions.
Schedule make_schedule(ScheduleKind method, const PipelineShape& shape, int64_t micro_batches);
inline constexpr int64_t kMaxActions = 1 << 24;

// A message between stages: outputs of `stage` to the next stage after F, gradients of the inputs
// of `stage` to the previous stage after B. Between chunks of one rank (P = 1) from = to, and
// nothing needs to be sent.
struct StageMessage {
  ActionKind kind = ActionKind::kForward;  // kForward or kBackward
  int32_t stage = 0;                       // the sender's
  int32_t micro = 0;
  int32_t from = 0, to = 0;  // ranks along the pipeline
  bool operator==(const StageMessage&) const = default;
};
// The message that an action waits for, and the message that it sends when it is done.
std::optional<StageMessage> received_by(const Schedule& schedule, int32_t rank,
                                        const Action& action);
std::optional<StageMessage> sent_by(const Schedule& schedule, int32_t rank, const Action& action);

// Throws PLAIT_ERR_INVALID unless every rank has each of its (chunk, kind, micro-batch) exactly
// once: for schedules made elsewhere.
void check_complete(const Schedule& schedule);

// The maximal number of micro-batches whose activations a rank holds: from the start of F to the
// end of B, or of W if the backward pass is split. For all chunks together, and for each chunk.
struct LiveMicroBatches {
  int32_t peak = 0;
  std::vector<int32_t> of_chunk;
};
LiveMicroBatches live_micro_batches(const Schedule& schedule, int32_t rank);

// "F of micro-batch 3 in stage 5".
std::string describe(const Schedule& schedule, int32_t rank, const Action& action);

}  // namespace plait::topology

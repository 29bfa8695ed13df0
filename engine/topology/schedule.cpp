#include "engine/topology/schedule.hpp"

#include <algorithm>
#include <array>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/topology/schedule_actions.hpp"
#include "engine/topology/topology_error.hpp"

namespace plait::topology {

namespace {

constexpr std::array<const char*, 5> kNames = {"forward", "gpipe", "1f1b", "interleaved",
                                               "zero_bubble"};

void check_numbers(const PipelineShape& shape, int64_t micro_batches) {
  std::vector<TopologyError> errors;
  const auto positive = [&](const char* key, int64_t value, const char* hint) {
    if (value < 1)
      errors.push_back({key, "found " + std::to_string(value) + ", expected 1 or more", hint});
  };
  positive("topology.pipeline", shape.ranks, "use 1 for an axis that is not used");
  positive("topology.virtual_stages", shape.chunks, "use 1 for one stage on each rank");
  positive("batch.accumulation", micro_batches, "a step needs a micro-batch");
  raise_if_any(errors);
  const int64_t stages = int64_t{shape.ranks} * shape.chunks;
  if (stages > kMaxActions || micro_batches > kMaxActions ||
      3 * stages * micro_batches > kMaxActions)
    raise_if_any({{"batch.accumulation",
                   std::to_string(micro_batches) + " micro-batches in " + std::to_string(stages) +
                       " stages are more than " + std::to_string(kMaxActions) + " actions",
                   "use larger micro-batches"}});
}

void check_chunks(ScheduleKind method, const PipelineShape& shape) {
  const bool chunked = method == ScheduleKind::kInterleaved || method == ScheduleKind::kForwardOnly;
  if (shape.chunks > 1 && !chunked)
    raise_if_any({{"topology.virtual_stages",
                   "schedule '" + std::string(schedule_name(method)) +
                       "' has one stage on each rank, found " + std::to_string(shape.chunks),
                   "use virtual_stages = 1, or schedule = \"interleaved\""}});
}

std::vector<Action> actions_of(const Schedule& s, int32_t rank) {
  switch (s.method) {
    case ScheduleKind::kForwardOnly:
      return forward_only(s.shape, s.micro_batches);
    case ScheduleKind::kGPipe:
      return gpipe(s.micro_batches);
    case ScheduleKind::k1F1B:
      return one_forward_one_backward(s.shape, rank, s.micro_batches);
    case ScheduleKind::kInterleaved:
      return interleaved(s.shape, rank, s.micro_batches);
    case ScheduleKind::kZeroBubble:
      return zero_bubble(s.shape, rank, s.micro_batches);
  }
  return {};
}

// Calls change(chunk, +1) when a rank begins to hold a micro-batch and change(chunk, -1) when it
// stops.
template <class Change>
void walk_live(const Schedule& schedule, int32_t rank, const Change& change) {
  const ActionKind last =
      schedule.split_backward ? ActionKind::kBackwardWeight : ActionKind::kBackward;
  const bool kept = schedule.method != ScheduleKind::kForwardOnly;
  for (const Action& action : schedule.actions.at(static_cast<size_t>(rank))) {
    const size_t chunk = static_cast<size_t>(action.chunk);
    if (action.kind == ActionKind::kForward) change(chunk, 1);
    if (kept ? action.kind == last : true) change(chunk, -1);
  }
}

}  // namespace

char action_letter(ActionKind kind) { return "FBW"[static_cast<size_t>(kind)]; }

const char* schedule_name(ScheduleKind method) { return kNames[static_cast<size_t>(method)]; }

ScheduleKind schedule_kind_named(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<ScheduleKind>(found - kNames.begin());
  raise_if_any({{"topology.schedule",
                 "no schedule '" + std::string(name) + "'" +
                     did_you_mean(nearest(std::string(name), kNames)),
                 "use one of " + join(kNames)}});
  return ScheduleKind::k1F1B;
}

Schedule make_schedule(ScheduleKind method, const PipelineShape& shape, int64_t micro_batches) {
  check_numbers(shape, micro_batches);
  check_chunks(method, shape);
  Schedule schedule{
      method, shape, static_cast<int32_t>(micro_batches), method == ScheduleKind::kZeroBubble, {}};
  for (int32_t rank = 0; rank < shape.ranks; ++rank)
    schedule.actions.push_back(actions_of(schedule, rank));
  return schedule;
}

std::optional<StageMessage> received_by(const Schedule& s, int32_t rank, const Action& action) {
  const int32_t stage = s.shape.stage(rank, action.chunk);
  const bool forward = action.kind == ActionKind::kForward;
  const int32_t sender = forward ? stage - 1 : stage + 1;
  if (action.kind == ActionKind::kBackwardWeight || sender < 0 || sender == s.shape.stages())
    return {};
  return StageMessage{action.kind, sender, action.micro, s.shape.rank_of(sender), rank};
}

std::optional<StageMessage> sent_by(const Schedule& s, int32_t rank, const Action& action) {
  const int32_t stage = s.shape.stage(rank, action.chunk);
  const int32_t receiver = action.kind == ActionKind::kForward ? stage + 1 : stage - 1;
  if (action.kind == ActionKind::kBackwardWeight || receiver < 0 || receiver == s.shape.stages())
    return {};
  return StageMessage{action.kind, stage, action.micro, rank, s.shape.rank_of(receiver)};
}

void check_complete(const Schedule& s) {
  check_numbers(s.shape, s.micro_batches);
  const auto [ranks, chunks] = s.shape;
  const int32_t kinds = s.method == ScheduleKind::kForwardOnly ? 1 : s.split_backward ? 3 : 2;
  if (s.actions.size() != static_cast<size_t>(ranks))
    fail_invalid(strf("[topology] a schedule for %d ranks has %zu lists", ranks, s.actions.size()));
  for (int32_t rank = 0; rank < ranks; ++rank) {
    std::vector<int32_t> seen(static_cast<size_t>(chunks) *
                              static_cast<size_t>(int64_t{s.micro_batches} * kinds));
    for (const Action& a : s.actions[static_cast<size_t>(rank)]) {
      const int32_t kind = static_cast<int32_t>(a.kind);
      if (a.chunk < 0 || a.chunk >= chunks || a.micro < 0 || a.micro >= s.micro_batches ||
          kind >= kinds)
        fail_invalid(strf(
            "[topology] rank %d of a schedule has %c of chunk %d, micro-batch %d; there are %d "
            "chunks, %d micro-batches and %d kinds",
            rank, action_letter(a.kind), a.chunk, a.micro, chunks, s.micro_batches, kinds));
      const int64_t at = (int64_t{a.chunk} * s.micro_batches + a.micro) * kinds + kind;
      ++seen[static_cast<size_t>(at)];
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] == 1) continue;
      const int32_t pass = static_cast<int32_t>(i) / kinds;
      const Action a{pass / s.micro_batches,
                     static_cast<ActionKind>(static_cast<int32_t>(i) % kinds),
                     pass % s.micro_batches};
      fail_invalid(strf("[topology] rank %d of a schedule has %s %d times, expected once", rank,
                        describe(s, rank, a).c_str(), seen[i]));
    }
  }
}

LiveMicroBatches live_micro_batches(const Schedule& schedule, int32_t rank) {
  LiveMicroBatches result;
  std::vector<int32_t> now(static_cast<size_t>(schedule.shape.chunks), 0);
  result.of_chunk = now;
  int32_t all = 0;
  walk_live(schedule, rank, [&](size_t chunk, int32_t by) {
    all += by;
    now[chunk] += by;
    result.peak = std::max(result.peak, all);
    result.of_chunk[chunk] = std::max(result.of_chunk[chunk], now[chunk]);
  });
  return result;
}

std::string describe(const Schedule& schedule, int32_t rank, const Action& action) {
  return strf("%c of micro-batch %d in stage %d", action_letter(action.kind), action.micro,
              schedule.shape.stage(rank, action.chunk));
}

}  // namespace plait::topology

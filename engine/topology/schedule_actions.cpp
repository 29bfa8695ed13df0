#include "engine/topology/schedule_actions.hpp"

#include <algorithm>

namespace plait::topology {

namespace {

struct Pass {
  int32_t chunk, micro;
};

// The order in which (chunk, micro-batch) pass through a rank: group by group, within a group chunk
// by chunk.
std::vector<Pass> grouped(const PipelineShape& shape, int32_t micro_batches,
                          const ExtentSplit& groups, bool backward) {
  std::vector<Pass> order;
  order.reserve(static_cast<size_t>(shape.chunks) * static_cast<size_t>(micro_batches));
  for (int32_t g = 0; g < groups.members(); ++g) {
    const Range group = groups.range(g);
    for (int32_t c = 0; c < shape.chunks; ++c)
      for (int64_t m = group.begin; m < group.end; ++m)
        order.push_back({backward ? shape.chunks - 1 - c : c, static_cast<int32_t>(m)});
  }
  return order;
}

// `ahead` forward passes, then alternately one forward and one backward, then the remaining
// backward passes.
std::vector<Action> in_turn(const std::vector<Pass>& forward, const std::vector<Pass>& backward,
                            size_t ahead) {
  std::vector<Action> actions;
  const size_t n = forward.size();
  ahead = std::min(ahead, n);
  for (size_t i = 0; i < n + ahead; ++i) {
    if (i < n) actions.push_back({forward[i].chunk, ActionKind::kForward, forward[i].micro});
    if (i >= ahead) {
      const Pass& pass = backward[i - ahead];
      actions.push_back({pass.chunk, ActionKind::kBackward, pass.micro});
    }
  }
  return actions;
}

}  // namespace

std::vector<Action> forward_only(const PipelineShape& shape, int32_t micro_batches) {
  std::vector<Action> actions;
  const int32_t groups = std::max(1, micro_batches / shape.ranks);
  for (const Pass& pass :
       grouped(shape, micro_batches, ExtentSplit::balanced(micro_batches, groups), false))
    actions.push_back({pass.chunk, ActionKind::kForward, pass.micro});
  return actions;
}

std::vector<Action> gpipe(int32_t micro_batches) {
  std::vector<Action> actions;
  for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward})
    for (int32_t m = 0; m < micro_batches; ++m) actions.push_back({0, kind, m});
  return actions;
}

std::vector<Action> one_forward_one_backward(const PipelineShape& shape, int32_t rank,
                                             int32_t micro_batches) {
  const std::vector<Pass> order =
      grouped(shape, micro_batches, ExtentSplit::balanced(micro_batches, 1), false);
  return in_turn(order, order, static_cast<size_t>(shape.ranks - rank - 1));
}

std::vector<Action> interleaved(const PipelineShape& shape, int32_t rank, int32_t micro_batches) {
  if (shape.chunks == 1) return one_forward_one_backward(shape, rank, micro_batches);
  const ExtentSplit groups =
      ExtentSplit::balanced(micro_batches, std::max(1, micro_batches / shape.ranks));
  const int64_t largest = groups.range(0).size();
  const int64_t ahead = 2 * (shape.ranks - rank - 1) + (shape.chunks - 1) * largest;
  return in_turn(grouped(shape, micro_batches, groups, false),
                 grouped(shape, micro_batches, groups, true), static_cast<size_t>(ahead));
}

std::vector<Action> zero_bubble(const PipelineShape& shape, int32_t rank, int32_t micro_batches) {
  std::vector<Action> actions;
  int32_t backward = 0, weights = 0;
  for (const Action& action : one_forward_one_backward(shape, rank, micro_batches)) {
    actions.push_back(action);
    if (action.kind != ActionKind::kBackward) continue;
    ++backward;
    if (backward - weights > rank) actions.push_back({0, ActionKind::kBackwardWeight, weights++});
  }
  while (weights < micro_batches) actions.push_back({0, ActionKind::kBackwardWeight, weights++});
  return actions;
}

}  // namespace plait::topology

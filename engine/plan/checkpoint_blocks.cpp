#include "engine/plan/checkpoint_blocks.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/program/op_def.hpp"

namespace plait::plan {

bool is_saved(const Plan& plan, const Parameter& p) {
  // What a method draws and never trains is no part of the base.
  if (!p.frozen || !p.adapter.empty()) return true;
  return !plan.experiment.checkpoint.only_trained() && !p.is_quantized();
}

namespace {

// The replica that writes a replicated parameter: each writes about the same number of bytes.
// Shards of tensor ranks are written by the ranks that hold them, in one replica; a parameter of
// several pipeline ranks is written by the first of them.
std::vector<topology::Coordinates> writers(const Plan& plan) {
  const int32_t data = plan.grid.data(), tensor = plan.grid.tensor();
  const size_t n = static_cast<size_t>(data) * static_cast<size_t>(tensor);
  std::vector<std::vector<int64_t>> loads(static_cast<size_t>(plan.grid.pipeline()),
                                          std::vector<int64_t>(n, 0));
  std::vector<topology::Coordinates> writer;
  for (const Parameter& p : plan.parameters) {
    std::vector<int64_t>& load = loads[static_cast<size_t>(p.holders[0])];
    // All shards of a parameter are written by the same replica.
    const auto lightest =
        static_cast<int32_t>(std::min_element(load.begin(), load.end()) - load.begin());
    writer.push_back({p.holders[0], lightest / tensor, lightest % tensor});
    const auto replica = static_cast<size_t>(lightest - lightest % tensor);
    for (int32_t t = 0; t < tensor; ++t)
      if (is_saved(plan, p) && (p.sharded || t == lightest % tensor))
        load[replica + static_cast<size_t>(t)] += p.stored_elements;
  }
  return writer;
}

}  // namespace

uint64_t CheckpointBlock::bytes() const {
  return program::bytes_of(topology::elements(local.box), local.dtype);
}

namespace {

// As the replica holds the blocks and writes them.
void for_each_block(const Plan& plan, int32_t replica,
                    const std::function<void(const CheckpointBlock&)>& visit) {
  const std::vector<topology::Coordinates> writer = writers(plan);
  const bool states_shared = plan.zero > 0;
  const auto of_us = [&](size_t i, bool every_replica, bool sharded) {
    return writer[i].pipeline == plan.at.pipeline && (every_replica || writer[i].data == replica) &&
           (sharded || writer[i].tensor == plan.at.tensor);
  };
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const Parameter& p = plan.parameters[i];
    for (LocalBlock& h : local_parameter_blocks(plan, p, replica))
      visit(CheckpointBlock{p.name, p, p.shape, std::move(h), false,
                            of_us(i, is_divided(plan, p), p.sharded), is_saved(plan, p)});
  }
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const Parameter& p = plan.parameters[i];
    for (StateBlocks& s : local_states(plan, p, replica))
      for (LocalBlock& h : s.blocks)
        visit(CheckpointBlock{p.name + "." + s.name, p, s.shape, std::move(h), true,
                              of_us(i, states_shared, s.sharded), true});
  }
}

}  // namespace

void for_each_block(const Plan& plan, const std::function<void(const CheckpointBlock&)>& visit) {
  for_each_block(plan, plan.at.data, visit);
}

namespace {

uint64_t written_bytes(const Plan& plan, int32_t replica) {
  uint64_t bytes = 0;
  for_each_block(plan, replica,
                 [&](const CheckpointBlock& b) { bytes += b.ours && b.saved ? b.bytes() : 0; });
  return bytes;
}

}  // namespace

uint64_t checkpoint_bytes(const Plan& plan) { return written_bytes(plan, plan.at.data); }

uint64_t checkpoint_copy_bytes(const Plan& plan) {
  return checkpoint_copy_bytes(plan, plan.at.data);
}

uint64_t checkpoint_copy_bytes(const Plan& plan, int32_t replica) {
  const auto& wanted = plan.experiment.checkpoint;
  return wanted.every == 0 || !wanted.background ? 0 : written_bytes(plan, replica);
}

}  // namespace plait::plan

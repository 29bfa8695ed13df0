#include "engine/plan/stage_programs.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/pipeline.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {

using program::Graph;
using program::Op;
using program::Phase;
using program::StagePartition;
using program::StageProgram;
using program::ValueId;

StageProgramBuilder::StageProgramBuilder(PlanDraft& plan, const TracedStep& whole,
                                         const StagePartition& partition,
                                         const std::vector<Collective>& collectives,
                                         const Feed& inputs, int32_t chunk, int32_t slots)
    : plan_(plan),
      whole_(whole),
      partition_(partition),
      collectives_(collectives),
      inputs_(inputs),
      stage_(plan.pipeline.schedule.shape.stage(plan.at.pipeline, chunk)),
      chunk_(chunk),
      slots_(slots) {
  const std::string name =
      plan.storage.segments()[static_cast<size_t>(inputs.weight.segment)].name +
      strf(" of stage %d", stage_);
  inputs_segment_ = plan.storage.add(name, Category::kInputs, slots);
  saved_segment_ = plan.storage.add(name + ", saved values", Category::kActivations, slots);
  for (ValueId storage : partition.saved(stage_))
    saved_buffers_[storage] =
        plan.storage.allocate(saved_segment_, program::bytes(whole.graph->shape(storage)));
  feed_.batch = inputs.batch;
}

BufferRef StageProgramBuilder::saved_buffer(ValueId storage) {
  const auto at = saved_buffers_.find(storage);
  if (at == saved_buffers_.end())
    fail_internal(strf("[plan] stage %d has no place for a value that it reads", stage_));
  return at->second;
}

// Inputs of a micro-batch lie in a segment of each stage that reads them; other values lie where
// the whole program has them.
BufferRef StageProgramBuilder::stage_buffer(BufferRef at) {
  if (at.segment != inputs_.weight.segment) return at;
  const auto own = [&](BufferRef& mine, uint64_t bytes) {
    if (mine.segment < 0) mine = plan_.storage.allocate(inputs_segment_, bytes);
    return mine;
  };
  if (at == inputs_.weight)
    return own(feed_.weight, program::bytes_of(inputs_.batch, data::kWeightType));
  if (at == inputs_.counter) return own(feed_.counter, 16);
  const auto is_at = [&](const Field& f) { return f.buffer == at; };
  const auto field = std::find_if(inputs_.fields.begin(), inputs_.fields.end(), is_at);
  if (field == inputs_.fields.end()) fail_internal("[plan] an input that no feed knows");
  for (const Field& mine : feed_.fields)
    if (mine.feed_index == field->feed_index) return mine.buffer;
  feed_.fields.push_back(*field);
  return feed_.fields.back().buffer =
             plan_.storage.allocate(inputs_segment_, program::bytes(field->shape));
}

// The value in this stage program that stands for one computed elsewhere.
ValueId StageProgramBuilder::import_value(Graph& to, ValueId v) {
  const Graph& g = *whole_.graph;
  const ValueId storage = g.storage_of(v);
  const auto& owner = g.value(storage);
  if (owner.producer < 0) {
    if (v == storage) return to.persistent(owner.name, owner.shape, stage_buffer(owner.buffer));
    // A view of an input is made again: with ZeRO the memory of the input may be temporary.
    Op view = g.ops()[static_cast<size_t>(g.value(v).producer)];
    view.out.clear();
    for (ValueId& in : view.in)
      in = program::copy_value(
          g, in, [this](Graph& t, ValueId u) { return import_value(t, u); }, to, made_);
    return to.append(std::move(view), {g.shape(v)})[0];
  }
  if (const auto here = received_.find(storage); here != received_.end())
    return v == storage ? here->second : to.view(here->second, g.storage_offset(v), g.shape(v));
  BufferRef at = saved_buffer(storage);
  at.offset += g.storage_offset(v);
  return to.persistent(owner.name, g.shape(v), at);
}

namespace {

// "values of model.fc1 from stage 1 to stage 2".
std::string name_of(const Graph& g, ValueId storage, int32_t from, int32_t to) {
  const Op& op = g.ops()[static_cast<size_t>(g.value(storage).producer)];
  return strf("%s of %s from stage %d to stage %d", op.backward ? "gradients" : "values",
              op.scope.c_str(), from, to);
}

}  // namespace

// The collective of a message between this stage and its neighbour; all programs of the stage that
// transfer the value use the same one.
int32_t StageProgramBuilder::message(ValueId storage, bool send) {
  int32_t& id = messages_.try_emplace({storage, send}, -1).first->second;
  if (id >= 0) return id;
  const topology::PipelineShape& shape = plan_.pipeline.schedule.shape;
  const bool backward = current_.phase != Phase::kForward;
  const int32_t other = stage_ + (send != backward ? 1 : -1);
  const Graph& g = *whole_.graph;
  id = add_collective(
      plan_, send ? name_of(g, storage, stage_, other) : name_of(g, storage, other, stage_),
      topology::Axis::kPipeline, send ? PLAIT_COMM_SEND : PLAIT_COMM_RECEIVE);
  Collective& e = plan_.collectives[static_cast<size_t>(id)];
  e.peer = static_cast<uint32_t>(shape.rank_of(other));
  // Between two ranks with several stages, activations and gradients may go the same way and are
  // not received in the order in which they are sent; so they use two channels.
  e.channel = backward && shape.chunks > 1 && shape.ranks == 2 ? 1 : 0;
  e.slotted = true;
  return id;
}

void StageProgramBuilder::begin(Phase phase) {
  current_ = {stage_, phase};
  graph_ = std::make_unique<Graph>(plan_.ops.get(), plan_.precision.scalar);
  made_.clear();
  received_.clear();
  Graph& g = *graph_;
  const Graph& whole = *whole_.graph;
  g.scope = strf("stage %d", stage_);
  // The messages of the slot's previous micro-batch must be sent before their memory is reused.
  for (ValueId storage : partition_.send(current_))
    wait_collective(g, message(storage, true),
                    g.persistent("sent before", whole.shape(storage), saved_buffer(storage)));
  std::vector<std::pair<ValueId, ValueId>> started;
  for (ValueId storage : partition_.recv(current_)) {
    const ValueId v = start_receive(g, plan_, message(storage, false), whole.shape(storage));
    started.emplace_back(storage, g.bind(v, saved_buffer(storage)));
  }
  for (const auto& [storage, v] : started)
    received_[storage] = wait_collective(g, message(storage, false), v);
  for (const auto& [storage, v] : received_) made_[storage] = v;
  program::copy_stage_program(
      whole, partition_, current_, [this](Graph& to, ValueId v) { return import_value(to, v); }, g,
      made_);
  for (ValueId storage : partition_.saved(stage_))
    if (const int32_t producer = whole.value(storage).producer;
        producer >= 0 && partition_.of(static_cast<size_t>(producer)) == current_)
      g.bind(made_.at(storage), saved_buffer(storage));
}

StageView StageProgramBuilder::view(bool last) {
  const auto live_out = [this](ValueId v, int32_t stage) -> ValueId {
    if (stage != stage_ || partition_.program_of_live_out(v, stage) != current_) return 0;
    return program::copy_value(
        *whole_.graph, v, [this](Graph& to, ValueId u) { return import_value(to, u); }, *graph_,
        made_);
  };
  const auto read = [this](const ParameterUse& use) -> ValueId {
    const auto at = made_.find(use.value);
    return use.stage == stage_ && at != made_.end() ? at->second : 0;
  };
  return {*graph_, live_out, read, chunk_, last};
}

// Messages are sent after the last op that works in their memory.
std::unique_ptr<Graph> StageProgramBuilder::finish() {
  const Graph& whole = *whole_.graph;
  std::map<ValueId, ValueId> latest = received_;
  for (const size_t i : partition_.ops(current_)) {
    const Op& op = whole.ops()[i];
    if (op.def->is_view) continue;
    for (ValueId v : op.out) latest[whole.storage_of(v)] = made_.at(v);
  }
  graph_->scope = strf("stage %d", stage_);
  for (ValueId storage : partition_.send(current_))
    start_send(*graph_, plan_, message(storage, true), latest.at(storage));
  number_collectives();
  return std::move(graph_);
}

void StageProgramBuilder::number_collectives() {
  std::map<int64_t, int64_t> fresh;
  for (size_t i = 0; i < graph_->ops().size(); ++i) {
    const Op& op = graph_->ops()[i];
    if (op.def->collective == program::CollectiveOp::kNone) continue;
    const int64_t id = op.attrs.integer("id", -1);
    if (id < kLocal) continue;
    const auto [at, first] = fresh.try_emplace(id, static_cast<int64_t>(plan_.collectives.size()));
    if (first) {
      plan_.add(collectives_.at(static_cast<size_t>(id - kLocal)));
      plan_.collectives.back().slotted = true;
    }
    graph_->set_attr(i, program::attr("id", at->second));
  }
}

std::vector<PendingSend> StageProgramBuilder::pending() const {
  std::vector<PendingSend> all;
  for (const auto& [key, collective] : messages_)
    if (key.second)
      all.push_back(
          {collective, slots_, whole_.graph->shape(key.first), saved_buffers_.at(key.first)});
  return all;
}

namespace {

// The programs of one stage in a step.
struct StageProgramIds {
  int32_t feed = -1, slots = 1;
  int32_t phase[3] = {-1, -1, -1},
          last[3] = {-1, -1, -1};  // by topology::ActionKind; last micro-batch
};

constexpr Phase kPhases[] = {Phase::kForward, Phase::kBackward, Phase::kBackwardWeight};
constexpr const char* kNames[] = {"forward", "backward", "backward_weight"};

StageProgramIds write_stage(PlanDraft& plan, const TracedStep& whole,
                            const StagePartition& partition,
                            const std::vector<Collective>& collectives, int32_t chunk,
                            EntryPoint& entry, std::vector<PendingSend>& pending) {
  const topology::Schedule& schedule = plan.pipeline.schedule;
  StageProgramIds programs;
  programs.slots =
      topology::live_micro_batches(schedule, plan.at.pipeline).of_chunk[static_cast<size_t>(chunk)];
  StageProgramBuilder builder(plan, whole, partition, collectives, plan.train_feed, chunk,
                              programs.slots);
  const int32_t stage = schedule.shape.stage(plan.at.pipeline, chunk);
  const int phases = schedule.split_backward ? 3 : 2;
  const auto write = [&](int k, bool last) {
    builder.begin(kPhases[k]);
    bind_training_outputs(plan, whole, builder.view(last));
    Program p = compile(strf("%s%s of stage %d", kNames[k], last ? "_reduce" : "", stage),
                        builder.finish(), plan);
    p.slots = last ? 1 : programs.slots;
    const int32_t stages = plan.pipeline.stages();
    p.order = k == 0 ? stage : k * stages + (stages - 1 - stage);
    p.first_slot = last ? static_cast<int32_t>((plan.accumulation - 1) % programs.slots) : 0;
    return plan.add(std::move(p));
  };
  for (int k = 0; k < phases; ++k) {
    const bool sends = k == phases - 1 && plan.grid.data() > 1 && plan.zero < 2;
    if (!sends || plan.accumulation > 1) programs.phase[k] = write(k, false);
    programs.last[k] = sends ? write(k, true) : programs.phase[k];
  }
  programs.feed = static_cast<int32_t>(entry.stage_feeds.size());
  entry.stage_feeds.push_back(builder.feed());
  const auto more = builder.pending();
  pending.insert(pending.end(), more.begin(), more.end());
  return programs;
}

// A digest of all messages of all stages and of their collectives, which must be equal on all
// ranks. before: the digest of another program, to continue.
uint64_t digest_of(const TracedStep& whole, const StagePartition& partition, int32_t stages,
                   const std::vector<Collective>& collectives, uint64_t before) {
  Hasher h;
  h.update(hex64(before));
  for (const Collective& e : collectives) h.update(text(e));
  for (int32_t s = 0; s < stages; ++s)
    for (const Phase phase : {Phase::kForward, Phase::kBackward})
      for (ValueId storage : partition.recv({s, phase}))
        h.update(strf("%d %d %u %s;", s, static_cast<int>(phase), storage,
                      program::text(whole.graph->shape(storage)).c_str()));
  return h.digest64();
}

// The operations of a stage program that remain after its last message is sent; 0 if it sends no
// message.
double after_messages(const Graph& g, const StagePartition& partition,
                      const StageProgram& program) {
  if (partition.send(program).empty()) return 0;
  double after = 0;
  for (const size_t i : partition.ops(program)) {
    const Op& op = g.ops()[i];
    if (op.def->is_view) continue;
    after += program::flops_of(g, op);
    for (ValueId v : op.out)
      if (partition.sends(program, g.storage_of(v))) after = 0;
  }
  return after;
}

std::vector<topology::StageCost> costs_of_stage_programs(const Graph& g,
                                                         const StagePartition& partition,
                                                         int32_t stages) {
  auto costs = costs_of(g, stages, [&](size_t op) {
    return static_cast<topology::ActionKind>(partition.of(op).phase);
  });
  for (int32_t s = 0; s < stages; ++s) {
    topology::StageCost& c = costs[static_cast<size_t>(s)];
    c.after_forward = after_messages(g, partition, {s, Phase::kForward});
    c.after_backward = after_messages(g, partition, {s, Phase::kBackward});
  }
  return costs;
}

}  // namespace

uint64_t write_training_stages(PlanDraft& plan, const TracedStep& whole,
                               const std::vector<Collective>& collectives, EntryPoint& entry,
                               std::vector<PendingSend>& pending) {
  const topology::Schedule& schedule = plan.pipeline.schedule;
  const StagePartition partition(*whole.graph, plan.pipeline.stages(), schedule.split_backward,
                                 live_outs_of(whole));
  plan.pipeline.digest = digest_of(whole, partition, plan.pipeline.stages(), collectives, 0);
  plan.pipeline.costs = costs_of_stage_programs(*whole.graph, partition, plan.pipeline.stages());
  const size_t first_segment = plan.storage.segments().size(), first = plan.programs.size();
  std::vector<StageProgramIds> of_chunk;
  for (int32_t chunk = 0; chunk < schedule.shape.chunks; ++chunk)
    of_chunk.push_back(write_stage(plan, whole, partition, collectives, chunk, entry, pending));
  for (const topology::Action& a : schedule.actions[static_cast<size_t>(plan.at.pipeline)]) {
    const StageProgramIds& p = of_chunk[static_cast<size_t>(a.chunk)];
    const auto k = static_cast<size_t>(a.kind);
    const bool last = a.micro == plan.accumulation - 1;
    entry.launches.push_back({last ? p.last[k] : p.phase[k], a.micro % p.slots,
                              a.kind == topology::ActionKind::kForward ? p.feed : -1, a.micro});
  }
  uint64_t saved = 0, inside = 0;
  for (size_t i = first_segment; i < plan.storage.segments().size(); ++i)
    if (plan.storage.segments()[i].category == Category::kActivations)
      saved += plan.storage.segments()[i].all_bytes();
  for (size_t i = first; i < plan.programs.size(); ++i)
    inside = std::max(inside, plan.programs[i].transient_bytes);
  return saved + inside;
}

void write_evaluation_stages(PlanDraft& plan, const TracedStep& whole,
                             const std::vector<Collective>& collectives, EntryPoint& entry,
                             std::vector<PendingSend>& pending) {
  const topology::PipelineShape& shape = plan.pipeline.schedule.shape;
  const StagePartition partition(*whole.graph, shape.stages(), false, live_outs_of(whole));
  plan.pipeline.digest =
      digest_of(whole, partition, shape.stages(), collectives, plan.pipeline.digest);
  for (int32_t chunk = 0; chunk < shape.chunks; ++chunk) {
    StageProgramBuilder builder(plan, whole, partition, collectives, plan.evaluation_feed, chunk,
                                1);
    builder.begin(Phase::kForward);
    bind_evaluation_outputs(plan, whole, builder.view(false));
    const std::string name = strf("evaluate of stage %d", shape.stage(plan.at.pipeline, chunk));
    const int32_t program = plan.add(compile(name, builder.finish(), plan));
    entry.launches.push_back({program, 0, static_cast<int32_t>(entry.stage_feeds.size()), 0});
    entry.stage_feeds.push_back(builder.feed());
    const auto more = builder.pending();
    pending.insert(pending.end(), more.begin(), more.end());
  }
}

}  // namespace plait::plan

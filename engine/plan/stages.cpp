#include "engine/plan/stages.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/exchange.hpp"
#include "engine/plan/pipeline.hpp"
#include "engine/program/rule.hpp"

namespace plait::plan {

using program::Graph;
using program::Op;
using program::Pass;
using program::Piece;
using program::Pieces;
using program::ValueId;

StageWriter::StageWriter(Plan& plan, const Written& whole, const Pieces& pieces,
                         const std::vector<Exchange>& exchanges, const Feed& inputs, int32_t chunk,
                         int32_t slots)
    : plan_(plan),
      whole_(whole),
      pieces_(pieces),
      exchanges_(exchanges),
      inputs_(inputs),
      stage_(plan.pipeline.schedule.shape.stage(plan.at.pipeline, chunk)),
      chunk_(chunk),
      slots_(slots) {
  const std::string name =
      plan.storage.segments()[static_cast<size_t>(inputs.weight.segment)].name +
      strf(" of stage %d", stage_);
  inputs_segment_ = plan.storage.add(name, Category::kInputs, slots);
  kept_segment_ = plan.storage.add(name + ", values kept", Category::kActivations, slots);
  for (ValueId root : pieces.kept(stage_))
    homes_[root] = plan.storage.take(kept_segment_, program::bytes(whole.graph->shape(root)));
  feed_.batch = inputs.batch;
}

Place StageWriter::home(ValueId root) {
  const auto at = homes_.find(root);
  if (at == homes_.end())
    fail_internal(strf("[plan] stage %d has no place for a value that it reads", stage_));
  return at->second;
}

// Inputs of a micro-batch lie in each stage that reads them; all else is where it is for the whole program.
Place StageWriter::own_place(Place at) {
  if (at.segment != inputs_.weight.segment) return at;
  const auto own = [&](Place& mine, uint64_t bytes) {
    if (mine.segment < 0) mine = plan_.storage.take(inputs_segment_, bytes);
    return mine;
  };
  if (at == inputs_.weight) return own(feed_.weight, static_cast<uint64_t>(inputs_.batch) * 4);
  if (at == inputs_.counter) return own(feed_.counter, 16);
  const auto is_at = [&](const Field& f) { return f.place == at; };
  const auto field = std::find_if(inputs_.fields.begin(), inputs_.fields.end(), is_at);
  if (field == inputs_.fields.end()) fail_internal("[plan] an input that no feed knows");
  for (const Field& mine : feed_.fields)
    if (mine.whole == field->whole) return mine.place;
  feed_.fields.push_back(*field);
  return feed_.fields.back().place =
             plan_.storage.take(inputs_segment_, program::bytes(field->shape));
}

// What the whole program makes elsewhere.
ValueId StageWriter::import(Graph& to, ValueId v) {
  const Graph& g = *whole_.graph;
  const ValueId root = g.root(v);
  const auto& owner = g.value(root);
  if (owner.producer < 0) {
    if (v == root) return to.persistent(owner.name, owner.shape, own_place(owner.place));
    // A view of what comes from outside is looked at anew: with ZeRO that may come and go.
    Op view = g.ops()[static_cast<size_t>(g.value(v).producer)];
    view.out.clear();
    for (ValueId& in : view.in)
      in = program::extracted(
          g, in, [this](Graph& t, ValueId u) { return import(t, u); }, to, made_);
    return to.append(std::move(view), {g.shape(v)})[0];
  }
  if (const auto here = arrived_.find(root); here != arrived_.end())
    return v == root ? here->second : to.part(here->second, g.inside_root(v), g.shape(v));
  Place at = home(root);
  at.offset += g.inside_root(v);
  return to.persistent(owner.name, g.shape(v), at);
}

namespace {

// "values of model.fc1 to stage 2".
std::string name_of(const Graph& g, ValueId root, int32_t from, int32_t to) {
  const Op& op = g.ops()[static_cast<size_t>(g.value(root).producer)];
  return strf("%s of %s from stage %d to stage %d", op.backward ? "gradients" : "values",
              op.scope.c_str(), from, to);
}

}  // namespace

// The message of a value between this stage and the neighbour that the piece talks to; the same for all programs of the piece.
int32_t StageWriter::message(ValueId root, bool send) {
  int32_t& id = messages_.try_emplace({root, send}, -1).first->second;
  if (id >= 0) return id;
  const topology::PipelineShape& shape = plan_.pipeline.schedule.shape;
  const bool backward = piece_.pass != Pass::kForward;
  const int32_t other = stage_ + (send != backward ? 1 : -1);
  const Graph& g = *whole_.graph;
  id = add_exchange(plan_, send ? name_of(g, root, stage_, other) : name_of(g, root, other, stage_),
                    topology::Axis::kPipeline, send ? PLAIT_COMM_SEND : PLAIT_COMM_RECEIVE);
  Exchange& e = plan_.exchanges[static_cast<size_t>(id)];
  e.peer = static_cast<uint32_t>(shape.rank_of(other));
  // Between two ranks with several stages both kinds go the same way, and are not taken in the order in which they are sent.
  e.channel = backward && shape.chunks > 1 && shape.ranks == 2 ? 1 : 0;
  e.slotted = true;
  return id;
}

void StageWriter::begin(Pass pass) {
  piece_ = {stage_, pass};
  graph_ = std::make_unique<Graph>(plan_.rules.get());
  made_.clear();
  arrived_.clear();
  Graph& g = *graph_;
  const Graph& whole = *whole_.graph;
  g.scope = strf("stage %d", stage_);
  // What the slot's last micro-batch sent must have left before its memory is written again.
  for (ValueId root : pieces_.sent(piece_))
    wait_exchange(g, message(root, true),
                  g.persistent("sent before", whole.shape(root), home(root)));
  std::vector<std::pair<ValueId, ValueId>> started;
  for (ValueId root : pieces_.received(piece_)) {
    const ValueId v = start_receive(g, plan_, message(root, false), whole.shape(root));
    started.emplace_back(root, g.bind(v, home(root)));
  }
  for (const auto& [root, v] : started) arrived_[root] = wait_exchange(g, message(root, false), v);
  for (const auto& [root, v] : arrived_) made_[root] = v;
  program::extract(
      whole, pieces_, piece_, [this](Graph& to, ValueId v) { return import(to, v); }, g, made_);
  for (ValueId root : pieces_.kept(stage_))
    if (const int32_t producer = whole.value(root).producer;
        producer >= 0 && pieces_.of(static_cast<size_t>(producer)) == piece_)
      g.bind(made_.at(root), home(root));
}

Here StageWriter::here(bool last) {
  const auto delivered = [this](ValueId v, int32_t stage) -> ValueId {
    if (stage != stage_ || pieces_.delivery_of(v, stage) != piece_) return 0;
    return program::extracted(
        *whole_.graph, v, [this](Graph& to, ValueId u) { return import(to, u); }, *graph_, made_);
  };
  const auto read = [this](const Leaf& leaf) -> ValueId {
    const auto at = made_.find(leaf.value);
    return leaf.stage == stage_ && at != made_.end() ? at->second : 0;
  };
  return {*graph_, delivered, read, chunk_, last};
}

// Messages leave when the last op that works in their memory has run.
std::unique_ptr<Graph> StageWriter::finish() {
  const Graph& whole = *whole_.graph;
  std::map<ValueId, ValueId> latest = arrived_;
  for (size_t i = 0; i < whole.ops().size(); ++i) {
    const Op& op = whole.ops()[i];
    if (pieces_.of(i) != piece_ || op.rule->is_view) continue;
    for (ValueId v : op.out) latest[whole.root(v)] = made_.at(v);
  }
  graph_->scope = strf("stage %d", stage_);
  for (ValueId root : pieces_.sent(piece_))
    start_send(*graph_, plan_, message(root, true), latest.at(root));
  number_exchanges();
  return std::move(graph_);
}

void StageWriter::number_exchanges() {
  std::map<int64_t, int64_t> fresh;
  for (Op& op : graph_->ops()) {
    if (op.rule->exchange == program::Exchange::kNone) continue;
    const int64_t id = op.attrs.integer("id", -1);
    if (id < kLocal) continue;
    const auto [at, first] = fresh.try_emplace(id, static_cast<int64_t>(plan_.exchanges.size()));
    if (first) {
      plan_.exchanges.push_back(exchanges_.at(static_cast<size_t>(id - kLocal)));
      plan_.exchanges.back().slotted = true;
    }
    op.attrs.set(program::attr("id", at->second));
  }
}

std::vector<Pending> StageWriter::pending() const {
  std::vector<Pending> all;
  for (const auto& [key, exchange] : messages_)
    if (key.second)
      all.push_back({exchange, slots_, whole_.graph->shape(key.first), homes_.at(key.first)});
  return all;
}

namespace {

// The programs of one stage in a step.
struct StagePrograms {
  int32_t feed = -1, slots = 1;
  int32_t pass[3] = {-1, -1, -1}, last[3] = {-1, -1, -1};  // by topology::Kind; last micro-batch
};

constexpr Pass kPasses[] = {Pass::kForward, Pass::kBackward, Pass::kWeights};
constexpr const char* kNames[] = {"forward", "backward", "weights"};

StagePrograms write_stage(Plan& plan, const Written& whole, const Pieces& pieces,
                          const std::vector<Exchange>& exchanges, int32_t chunk,
                          std::vector<Pending>& pending) {
  const topology::Schedule& schedule = plan.pipeline.schedule;
  StagePrograms programs;
  programs.slots = topology::held(schedule, plan.at.pipeline).of_chunk[static_cast<size_t>(chunk)];
  StageWriter writer(plan, whole, pieces, exchanges, plan.train_feed, chunk, programs.slots);
  const int32_t stage = schedule.shape.stage(plan.at.pipeline, chunk);
  const int passes = schedule.split ? 3 : 2;
  const auto write = [&](int k, bool last) {
    writer.begin(kPasses[k]);
    deliver_training(plan, whole, writer.here(last));
    Program p = compile(strf("%s%s of stage %d", kNames[k], last ? ", last," : "", stage),
                        writer.finish(), plan);
    p.slots = last ? 1 : programs.slots;
    const int32_t stages = plan.pipeline.stages();
    p.order = k == 0 ? stage : k * stages + (stages - 1 - stage);
    p.first_slot = last ? static_cast<int32_t>((plan.accumulation - 1) % programs.slots) : 0;
    return plan.add(std::move(p));
  };
  for (int k = 0; k < passes; ++k) {
    const bool sends = k == passes - 1 && plan.grid.data() > 1 && plan.zero < 2;
    if (!sends || plan.accumulation > 1) programs.pass[k] = write(k, false);
    programs.last[k] = sends ? write(k, true) : programs.pass[k];
  }
  plan.train_feeds.push_back(writer.feed());
  programs.feed = static_cast<int32_t>(plan.train_feeds.size()) - 1;
  const auto more = writer.pending();
  pending.insert(pending.end(), more.begin(), more.end());
  return programs;
}

// All messages of all stages, and exchanges inside of them: what every rank must find alike. before: digest of another program.
uint64_t digest_of(const Written& whole, const Pieces& pieces, int32_t stages,
                   const std::vector<Exchange>& exchanges, uint64_t before) {
  Hasher h;
  h.update(hex64(before));
  for (const Exchange& e : exchanges) h.update(text(e));
  for (int32_t s = 0; s < stages; ++s)
    for (const Pass pass : {Pass::kForward, Pass::kBackward})
      for (ValueId root : pieces.received({s, pass}))
        h.update(strf("%d %d %u %s;", s, static_cast<int>(pass), root,
                      program::text(whole.graph->shape(root)).c_str()));
  return h.digest64();
}

// The operations of a piece that are still to do when all its messages have left. None leaves: 0.
double after_messages(const Graph& g, const Pieces& pieces, const Piece& piece) {
  const auto sent = pieces.sent(piece);
  if (sent.empty()) return 0;
  double after = 0;
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    if (pieces.of(i) != piece || op.rule->is_view) continue;
    after += program::flops_of(g, op);
    for (ValueId v : op.out)
      if (std::find(sent.begin(), sent.end(), g.root(v)) != sent.end()) after = 0;
  }
  return after;
}

std::vector<topology::StageCost> costs_of_pieces(const Graph& g, const Pieces& pieces,
                                                 int32_t stages) {
  auto costs = costs_of(g, stages,
                        [&](size_t op) { return static_cast<topology::Kind>(pieces.of(op).pass); });
  for (int32_t s = 0; s < stages; ++s) {
    topology::StageCost& c = costs[static_cast<size_t>(s)];
    c.after_forward = after_messages(g, pieces, {s, Pass::kForward});
    c.after_backward = after_messages(g, pieces, {s, Pass::kBackward});
  }
  return costs;
}

}  // namespace

uint64_t write_training_stages(Plan& plan, const Written& whole,
                               const std::vector<Exchange>& exchanges,
                               std::vector<Pending>& pending) {
  const topology::Schedule& schedule = plan.pipeline.schedule;
  const Pieces pieces(*whole.graph, plan.pipeline.stages(), schedule.split, deliveries_of(whole));
  plan.pipeline.digest = digest_of(whole, pieces, plan.pipeline.stages(), exchanges, 0);
  plan.pipeline.costs = costs_of_pieces(*whole.graph, pieces, plan.pipeline.stages());
  const size_t first_segment = plan.storage.segments().size(), first = plan.programs.size();
  std::vector<StagePrograms> of_chunk;
  for (int32_t chunk = 0; chunk < schedule.shape.chunks; ++chunk)
    of_chunk.push_back(write_stage(plan, whole, pieces, exchanges, chunk, pending));
  for (const topology::Action& a : schedule.actions[static_cast<size_t>(plan.at.pipeline)]) {
    const StagePrograms& p = of_chunk[static_cast<size_t>(a.chunk)];
    const auto k = static_cast<size_t>(a.kind);
    const bool last = a.micro == plan.accumulation - 1;
    plan.step_turns.push_back({last ? p.last[k] : p.pass[k], a.micro % p.slots,
                               a.kind == topology::Kind::kForward ? p.feed : -1, a.micro});
  }
  uint64_t kept = 0, inside = 0;
  for (size_t i = first_segment; i < plan.storage.segments().size(); ++i)
    if (plan.storage.segments()[i].category == Category::kActivations)
      kept += plan.storage.segments()[i].all_bytes();
  for (size_t i = first; i < plan.programs.size(); ++i)
    inside = std::max(inside, plan.programs[i].transient_bytes);
  return kept + inside;
}

void write_evaluation_stages(Plan& plan, const Written& whole,
                             const std::vector<Exchange>& exchanges,
                             std::vector<Pending>& pending) {
  const topology::PipelineShape& shape = plan.pipeline.schedule.shape;
  const Pieces pieces(*whole.graph, shape.stages(), false, deliveries_of(whole));
  plan.pipeline.digest = digest_of(whole, pieces, shape.stages(), exchanges, plan.pipeline.digest);
  for (int32_t chunk = 0; chunk < shape.chunks; ++chunk) {
    StageWriter writer(plan, whole, pieces, exchanges, plan.eval_feed, chunk, 1);
    writer.begin(Pass::kForward);
    deliver_evaluation(plan, whole, writer.here(false));
    const std::string name = strf("evaluate of stage %d", shape.stage(plan.at.pipeline, chunk));
    const int32_t program = plan.add(compile(name, writer.finish(), plan));
    plan.eval_feeds.push_back(writer.feed());
    plan.evaluation_turns.push_back(
        {program, 0, static_cast<int32_t>(plan.eval_feeds.size()) - 1, 0});
    const auto more = writer.pending();
    pending.insert(pending.end(), more.begin(), more.end());
  }
}

}  // namespace plait::plan

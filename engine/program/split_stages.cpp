#include "engine/program/split_stages.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

const Op* producer_of(const Graph& g, ValueId v) {
  const int32_t producer = g.value(v).producer;
  return producer < 0 ? nullptr : &g.ops()[static_cast<size_t>(producer)];
}

// A constant, scalar or filled: each stage that reads it computes it.
bool is_constant(const Graph& g, ValueId v) {
  const Op* op = producer_of(g, v);
  return op && op->def->is_map && op->in.empty();
}

}  // namespace

StagePartition::StagePartition(const Graph& whole, int32_t stages, bool split_weights,
                               const std::vector<LiveOut>& live_outs)
    : whole_(whole),
      split_(split_weights),
      program_of_op_(whole.ops().size()),
      saved_(static_cast<size_t>(stages)),
      contents_(static_cast<size_t>(stages) * kPhases) {
  assign_phases(live_outs);
  for (size_t i = 0; i < whole.ops().size(); ++i) {
    contents_.at(index_of(program_of_op_[i])).ops.push_back(i);
    for (ValueId v : whole.ops()[i].in) note_reader(v, program_of_op_[i]);
  }
  for (const LiveOut& d : live_outs) note_reader(d.value, program_of_live_out(d.value, d.stage));
  for (const auto& [storage, transfer] : transfers_) list_transfer(storage, transfer);
}

// On each stage that the value lies on; between them from one to the next.
void StagePartition::list_transfer(ValueId storage, const ValueTransfer& transfer) {
  const Phase phase = transfer.backward ? Phase::kBackward : Phase::kForward;
  const int32_t step = transfer.backward ? -1 : 1;
  for (int32_t s = transfer.from;; s += step) {
    saved_.at(static_cast<size_t>(s)).push_back(storage);
    if (s == transfer.to) return;
    contents_.at(index_of({s, phase})).send.push_back(storage);
    contents_.at(index_of({s + step, phase})).recv.push_back(storage);
  }
}

// With split weights the backward phase keeps the ops whose results an earlier stage needs, and
// those that must not be deferred.
void StagePartition::assign_phases(const std::vector<LiveOut>& live_outs) {
  const auto& ops = whole_.ops();
  std::vector<char> needed(whole_.n_values(), 0);
  const auto from_later_stage = [&](ValueId v, int32_t stage) {
    const Op* maker = producer_of(whole_, v);
    return maker && maker->backward && maker->stage > stage;
  };
  for (const LiveOut& d : live_outs) needed[d.value] = from_later_stage(d.value, d.stage);
  for (size_t i = ops.size(); i-- > 0;) {
    const Op& op = ops[i];
    program_of_op_[i] = {op.stage, op.backward ? Phase::kBackward : Phase::kForward};
    backward_ = backward_ || op.backward;
    if (!op.backward || !split_) continue;
    const bool keeps = op.not_deferred || std::any_of(op.out.begin(), op.out.end(),
                                                      [&](ValueId v) { return needed[v] != 0; });
    if (!keeps) {
      program_of_op_[i].phase = Phase::kBackwardWeight;
      // An input that a later stage computed must be sent by that stage.
      for (ValueId v : op.in)
        if (from_later_stage(v, op.stage)) needed[v] = 1;
      continue;
    }
    for (ValueId v : op.in) needed[v] = 1;
  }
}

StageProgram StagePartition::program_of_live_out(ValueId v, int32_t stage) const {
  const int32_t producer = whole_.value(v).producer;
  const StageProgram last{stage, !backward_ ? Phase::kForward
                                 : split_   ? Phase::kBackwardWeight
                                            : Phase::kBackward};
  if (producer < 0) return last;
  const StageProgram& made = program_of_op_[static_cast<size_t>(producer)];
  return made.stage == stage ? made : last;
}

void StagePartition::note_reader(ValueId v, const StageProgram& reader) {
  const ValueId storage = whole_.storage_of(v);
  if (whole_.value(storage).producer < 0 || is_constant(whole_, storage)) return;
  const StageProgram& made = program_of_op_[static_cast<size_t>(whole_.value(storage).producer)];
  if (made == reader) return;
  const bool backward = made.phase != Phase::kForward;
  const auto [at, fresh] =
      transfers_.try_emplace(storage, ValueTransfer{made.stage, made.stage, backward});
  ValueTransfer& transfer = at->second;
  if (backward ? reader.stage > made.stage : reader.stage < made.stage)
    fail_internal("[program] a value of " + producer_of(whole_, storage)->scope + " in stage " +
                  std::to_string(made.stage) + " is read in stage " + std::to_string(reader.stage) +
                  ", where it cannot come to");
  transfer.to =
      backward ? std::min(transfer.to, reader.stage) : std::max(transfer.to, reader.stage);
}

bool StagePartition::sends(const StageProgram& program, ValueId storage) const {
  const auto transfer = transfers_.find(storage);
  if (transfer == transfers_.end()) return false;
  const auto& [from, to, backward] = transfer->second;
  if (backward)
    return program.phase == Phase::kBackward && to < program.stage && program.stage <= from;
  return program.phase == Phase::kForward && from <= program.stage && program.stage < to;
}

ValueId copy_value(const Graph& whole, ValueId v, const ImportValue& import_value, Graph& to,
                   std::map<ValueId, ValueId>& made) {
  if (const auto at = made.find(v); at != made.end()) return at->second;
  if (!is_constant(whole, whole.storage_of(v))) return made[v] = import_value(to, v);
  Op copy = *producer_of(whole, v);  // the constant, or a view of it
  copy.out.clear();
  for (ValueId& in : copy.in) in = copy_value(whole, in, import_value, to, made);
  return made[v] = to.append(std::move(copy), {whole.shape(v)})[0];
}

void copy_stage_program(const Graph& whole, const StagePartition& partition,
                        const StageProgram& program, const ImportValue& import_value, Graph& to,
                        std::map<ValueId, ValueId>& made) {
  for (const size_t i : partition.ops(program)) {
    Op copy = whole.ops()[i];
    to.write_like(copy);
    for (ValueId& v : copy.in) v = copy_value(whole, v, import_value, to, made);
    std::vector<plait_shape> shapes;
    const std::vector<ValueId> old = std::move(copy.out);
    copy.out.clear();
    for (ValueId v : old) shapes.push_back(whole.shape(v));
    const std::vector<ValueId> fresh = to.append(std::move(copy), shapes);
    for (size_t k = 0; k < old.size(); ++k) {
      made[old[k]] = fresh[k];
      const Value& was = whole.value(old[k]);
      if (was.alias_of) to.value(fresh[k]).alias_of = made.at(was.alias_of);
      to.value(fresh[k]).byte_offset = was.byte_offset;
    }
  }
  to.backward = to.not_deferred = false;
}

std::map<std::pair<ValueId, int32_t>, ValueId> split_parameter_uses(
    Graph& g, const std::vector<ValueId>& parameters) {
  std::map<std::pair<ValueId, int32_t>, ValueId> made;
  std::vector<char> is_parameter(g.n_values(), 0), taken(g.n_values(), 0);
  for (ValueId v : parameters) is_parameter[v] = 1;
  for (size_t i = 0; i < g.ops().size(); ++i)
    for (size_t k = 0; k < g.ops()[i].in.size(); ++k) {
      const ValueId parameter = g.ops()[i].in[k];
      if (parameter >= is_parameter.size() || !is_parameter[parameter]) continue;
      ValueId& own = made[{parameter, g.ops()[i].stage}];
      if (!own && !taken[parameter]) own = parameter;
      taken[parameter] = 1;
      if (!own) {
        const Value original = g.value(parameter);
        own = g.persistent(original.name, original.shape, original.buffer);
        g.value(own).requires_grad = original.requires_grad;
      }
      if (own != parameter) g.set_input(i, k, own);
    }
  for (ValueId v : parameters)
    if (!taken[v]) made[{v, 0}] = v;  // it has no reader
  return made;
}

}  // namespace plait::program

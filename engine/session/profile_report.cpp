#include "engine/session/profile_report.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"

namespace plait::session {
namespace {

using runtime::Executor;
using Names = std::vector<std::string>;

struct Sums {
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
  void add(const Sums& o) {
    calls += o.calls;
    seconds += o.seconds;
    flops += o.flops;
    bytes += o.bytes;
  }
};

const program::Op& op_of(const plan::Program& p, const plan::KernelCall& call) {
  return p.graph->ops()[static_cast<size_t>(call.op)];
}

double bytes_of(const plan::Plan& plan, const plan::Program& p, const plan::KernelCall& call) {
  const program::Graph& g = *p.graph;
  const program::Op& op = op_of(p, call);
  if (call.collective >= 0) {
    const plan::Collective& c = plan.collectives[static_cast<size_t>(call.collective)];
    const bool starts = op.def->collective == program::CollectiveOp::kStart;
    return starts ? static_cast<double>(c.n) * static_cast<double>(program::dtype_bytes(c.dtype))
                  : 0;
  }
  const auto use = op.def->index_use ? op.def->index_use(g, op) : std::nullopt;
  const uint64_t made = program::bytes(g.shape(op.out[0]));
  double bytes = 0;
  std::set<program::ValueId> seen;
  for (size_t i = 0; i < op.in.size(); ++i) {
    if (!seen.insert(op.in[i]).second) continue;
    const plait_shape& s = g.shape(op.in[i]);
    // Of a table only as many rows are read as are made.
    const bool table = use && !use->labels && i != use->operand && s.ndim > 0 &&
                       s.dims[0] == use->end - use->least;
    bytes += static_cast<double>(table ? std::min(program::bytes(s), made) : program::bytes(s));
  }
  for (const program::ValueId v : op.out) bytes += static_cast<double>(program::bytes(g.shape(v)));
  return bytes;
}

// What makes calls one row.
struct Row {
  const plan::Program* program = nullptr;
  const plan::KernelCall* call = nullptr;
  Sums sums;
  std::vector<double> seconds = {};  // of each call
};

double median(std::vector<double> all) {
  if (all.empty()) return 0;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

std::string kernel_of(const plan::KernelCall& call) { return call.kernel ? call.kernel->name : ""; }

Names shapes(const program::Graph& g, const std::vector<program::ValueId>& values) {
  Names all;
  for (const program::ValueId v : values) all.push_back(program::text(g.shape(v)));
  return all;
}

// "forward" and "backward" of a program that computes losses, else the program.
std::string pass_of(const plan::Program& p, const program::Op& op) {
  if (op.backward) return "backward";
  return starts_with(p.name, "forward") ? "forward" : p.name;
}

std::string key_of(const plan::Program& p, const plan::KernelCall& call) {
  const program::Op& op = op_of(p, call);
  std::string key = op.scope + "\n" + op.name + "\n" + pass_of(p, op) + "\n" + kernel_of(call);
  if (call.collective >= 0) return key + "\n" + std::to_string(call.collective);
  for (const auto* list : {&op.in, &op.out})
    for (const program::ValueId v : *list) key += "\n" + program::text(p.graph->shape(v));
  return key;
}

std::vector<Row> rows_of(const plan::Plan& plan, const Measured& measured) {
  // First by call, since a call is made many times.
  std::map<std::pair<const plan::Program*, size_t>, std::vector<double>> by_call;
  for (const Executor::TimedCall& t : measured.calls)
    by_call[{t.program, t.call}].push_back(static_cast<double>(t.end_ns - t.begin_ns) * 1e-9);
  std::map<std::string, Row> rows;
  for (const auto& [at, seconds] : by_call) {
    const plan::KernelCall& call = at.first->calls[at.second];
    const auto n = static_cast<double>(seconds.size());
    Sums sums{static_cast<int64_t>(seconds.size()), 0, n * call.flops,
              n * bytes_of(plan, *at.first, call)};
    for (const double s : seconds) sums.seconds += s;
    Row& row = rows.try_emplace(key_of(*at.first, call), Row{at.first, &call, {}}).first->second;
    row.sums.add(sums);
    row.seconds.insert(row.seconds.end(), seconds.begin(), seconds.end());
  }
  std::vector<Row> all;
  for (auto& [key, row] : rows) all.push_back(row);
  std::stable_sort(all.begin(), all.end(),
                   [](const Row& a, const Row& b) { return a.sums.seconds > b.sums.seconds; });
  return all;
}

void write_sums(JsonWriter& w, const Sums& s, const Measured& m) {
  w.field("calls", s.calls).field("seconds", s.seconds);
  w.field("share", m.seconds > 0 ? s.seconds / m.seconds : 0).field("flops", s.flops);
  const double rate = s.seconds > 0 ? s.flops / s.seconds : 0;
  w.field("flops_per_s", rate);
  if (m.peak_flops > 0) w.field("share_of_peak", rate / m.peak_flops);
  w.field("bytes", s.bytes).field("bytes_per_s", s.seconds > 0 ? s.bytes / s.seconds : 0);
}

void write_row(JsonWriter& w, const plan::Plan& plan, const Row& row, const Measured& m) {
  const program::Op& op = op_of(*row.program, *row.call);
  w.object().field("scope", op.scope).field("op", op.name);
  w.field("pass", pass_of(*row.program, op));
  if (row.call->collective >= 0)
    w.field("collective", plan.collectives[static_cast<size_t>(row.call->collective)].name);
  else
    w.field("kernel", kernel_of(*row.call)).field("detail", row.call->detail);
  w.texts("inputs", shapes(*row.program->graph, op.in));
  w.texts("outputs", shapes(*row.program->graph, op.out));
  w.field("median_seconds", median(row.seconds));
  write_sums(w, row.sums, m);
  w.end_object();
}

template <class NameOf>
void write_groups(JsonWriter& w, const char* list, const char* field, const std::vector<Row>& rows,
                  const Measured& m, NameOf&& name_of) {
  std::map<std::string, Sums> groups;
  for (const Row& row : rows) groups[name_of(op_of(*row.program, *row.call))].add(row.sums);
  std::vector<std::pair<std::string, Sums>> all(groups.begin(), groups.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  w.key(list).array();
  for (const auto& [name, sums] : all) {
    w.object().field(field, name);
    write_sums(w, sums, m);
    w.end_object();
  }
  w.end_array();
}

// How the model was divided, and its layers: what a plan compares that uses these times.
void write_model(JsonWriter& w, const plan::Plan& plan) {
  w.key("layout").object().field("pipeline", plan.grid.pipeline());
  w.field("data", plan.grid.data()).field("tensor", plan.grid.tensor());
  w.field("zero", plan.zero).field("sequence", plan.experiment.topology.sequence);
  if (plan.grid.pipeline() > 1)
    w.field("schedule", topology::schedule_name(plan.pipeline.schedule.method))
        .field("virtual_stages", plan.pipeline.schedule.shape.chunks);
  w.field("micro_batch", plan.experiment.batch.micro).field("accumulation", plan.accumulation);
  w.end_object().key("layers").array();
  for (const plan::Layer& layer : plan.layers)
    w.object()
        .field("name", layer.name)
        .field("type", layer.type)
        .field("output", program::text(layer.output))
        .end_object();
  w.end_array();
}

void write_rank(JsonWriter& w, const plan::Plan& plan, const Measured& m,
                const std::vector<Row>& rows) {
  Sums total;
  for (const Row& row : rows) total.add(row.sums);
  w.field("rank", plan.rank).field("seconds", m.seconds).field("kernel_seconds", total.seconds);
  w.field("outside_seconds", std::max(0.0, m.seconds - total.seconds));
  const plan::EntryPoint* entry = plan.find_entry_point(m.entry_point);
  w.field("launches_of_a_run", static_cast<uint64_t>(entry ? entry->launches.size() : 0));
  w.field("calls", total.calls).field("flops", total.flops);
  if (m.peak_flops > 0) w.field("peak_flops_per_s", m.peak_flops);
  w.key("ops").array();
  for (const Row& row : rows) write_row(w, plan, row, m);
  w.end_array();
}

}  // namespace

std::string rank_json(const plan::Plan& plan, const Measured& m) {
  JsonWriter w;
  w.object();
  write_rank(w, plan, m, rows_of(plan, m));
  w.end_object();
  return w.text();
}

std::string profile_json(const plan::Plan& plan, const Measured& m, const OtherRanks& others) {
  const std::vector<Row> rows = rows_of(plan, m);
  JsonWriter w;
  w.object().field("schema", 1).field("entry_point", m.entry_point).field("runs", m.runs);
  w.field("device", plan.device).field("threads", plan.threads);
  w.field("ranks", plan.grid.ranks());
  w.field("launches", m.waits ? "one by one, awaited" : "one by one");
  write_model(w, plan);
  write_rank(w, plan, m, rows);
  write_groups(w, "by_op", "op", rows, m, [](const program::Op& op) { return op.name; });
  write_groups(w, "by_layer", "layer", rows, m, [](const program::Op& op) { return op.scope; });
  if (!others.messages.empty())
    w.field("messages", static_cast<uint64_t>(others.messages.size()))
        .field("message_seconds", median(others.messages));
  if (!others.tables.empty()) {
    w.key("other_ranks").array();
    for (const std::string& table : others.tables) w.raw(table);
    w.end_array();
  }
  w.end_object();
  return w.text();
}

std::vector<std::pair<std::string, double>> op_seconds(
    const std::vector<Executor::TimedCall>& calls) {
  std::map<std::string, double> sums;
  for (const Executor::TimedCall& t : calls) {
    const plan::KernelCall& call = t.program->calls[t.call];
    if (call.collective >= 0) continue;
    const program::Op& op = op_of(*t.program, call);
    sums[op.name + (op.scope.empty() ? "" : " of " + op.scope) + " (" + pass_of(*t.program, op) +
         ")"] += static_cast<double>(t.end_ns - t.begin_ns) * 1e-9;
  }
  std::vector<std::pair<std::string, double>> all(sums.begin(), sums.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

std::string trace_events(const plan::Plan& plan, const Measured& m, uint64_t origin_ns) {
  const auto microseconds = [&](uint64_t ns) {
    return (static_cast<double>(ns) - static_cast<double>(origin_ns)) * 1e-3;
  };
  JsonWriter w;
  w.array().object().field("name", "process_name").field("ph", "M").field("pid", plan.rank);
  w.key("args").object().field("name", strf("rank %d", plan.rank)).end_object().end_object();
  for (const Executor::TimedCall& t : m.calls) {
    const plan::KernelCall& call = t.program->calls[t.call];
    const program::Op& op = op_of(*t.program, call);
    w.object().field("name", op.name).field("cat", t.program->name).field("ph", "X");
    w.field("ts", microseconds(t.begin_ns));
    w.field("dur", static_cast<double>(t.end_ns - t.begin_ns) * 1e-3);
    w.field("pid", plan.rank).field("tid", 0).key("args").object().field("layer", op.scope);
    if (call.collective >= 0)
      w.field("collective", plan.collectives[static_cast<size_t>(call.collective)].name);
    else
      w.field("kernel", kernel_of(call)).field("flops", call.flops);
    w.field("slot", t.slot).end_object().end_object();
  }
  w.end_array();
  return w.text().substr(1, w.text().size() - 2);
}

std::string trace_json(const std::vector<std::string>& events) {
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + join(events, ",\n") + "]}\n";
}

}  // namespace plait::session

#include "engine/plan/measured_times.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {
namespace {

using Kind = JsonValue::Kind;

[[noreturn]] void fail_profile(const std::string& what) {
  fail_data("[profile] the profile " + what + "; expected what `plait profile --to FILE` writes");
}

const JsonValue& item(const JsonValue& of, const char* key, Kind kind) {
  const JsonValue* found = of.find(key);
  if (!found || !found->is(kind)) fail_profile(std::string("has no `") + key + "`");
  return *found;
}

std::string text_in(const JsonValue& of, const char* key) {
  return item(of, key, Kind::kText).text;
}

double number_in(const JsonValue& of, const char* key) {
  const JsonValue* found = of.find(key);
  double value = -1;
  if (found && found->is(Kind::kWhole))
    value = static_cast<double>(found->whole);
  else if (found && found->is(Kind::kReal))
    value = std::strtod(found->text.c_str(), nullptr);
  if (!(value >= 0) || std::isinf(value))
    fail_profile(std::string("has no number of 0 or more as `") + key + "`");
  return value;
}

int64_t count_in(const JsonValue& of, const char* key) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  const JsonValue& found = item(of, key, Kind::kWhole);
  if (found.whole > kMost) fail_profile(std::string("has too large a number as `") + key + "`");
  return static_cast<int64_t>(found.whole);
}

std::vector<std::string> texts_in(const JsonValue& of, const char* key) {
  std::vector<std::string> all;
  for (const JsonValue& one : item(of, key, Kind::kList).items) all.push_back(one.text);
  return all;
}

// A pass without its stage: "backward of stage 1" and "backward_reduce of stage 0" are "backward".
std::string pass_kind(const std::string& pass) {
  for (const char* kind : {"forward", "backward"})
    if (starts_with(pass, kind)) return kind;
  return pass;
}

std::string key_of(const MeasuredOp& op, bool with_pass) {
  std::string key = op.scope + "\n" + op.op + "\n" + op.collective;
  if (with_pass) key += "\n" + pass_kind(op.pass);
  for (const auto* list : {&op.inputs, &op.outputs}) key += "\n" + join(*list, "; ");
  return key;
}

[[noreturn]] void fail_other(const std::string& what, const std::string& found,
                             const std::string& expected, const std::string& advice) {
  fail_config("[profile] " + what + ": the profile has " + found + ", this plan " + expected +
              "; " + advice);
}

void compare_number(const char* what, int64_t found, int64_t expected, const std::string& key) {
  if (found == expected) return;
  const auto text = [](int64_t n) { return std::to_string(n); };
  fail_other(what, text(found), text(expected),
             "use " + key + "=" + text(found) + ", or measure with " + key + "=" + text(expected));
}

}  // namespace

MeasuredOp measured_op(const Plan& plan, const Program& program, const KernelCall& call) {
  const program::Graph& g = *program.graph;
  const program::Op& op = g.ops()[static_cast<size_t>(call.op)];
  MeasuredOp made{op.scope, op.name, op.backward ? "backward" : program.name, "", {}, {}};
  if (call.collective >= 0)
    made.collective = plan.collectives[static_cast<size_t>(call.collective)].name;
  for (const program::ValueId v : op.in) made.inputs.push_back(program::text(g.shape(v)));
  for (const program::ValueId v : op.out) made.outputs.push_back(program::text(g.shape(v)));
  return made;
}

MeasuredTimes::MeasuredTimes(std::string_view profile) {
  JsonValue root;
  try {
    root = parse_json(profile);
  } catch (const Error& e) {
    fail_profile(e.what());
  }
  if (!root.is(Kind::kObject)) fail_profile("is no JSON object");
  if (text_in(root, "entry_point") != kTrainStep)
    fail_profile("measured '" + text_in(root, "entry_point") + "', not steps (leave out --eval)");
  device_ = text_in(root, "device");
  by_launches_ = text_in(root, "launches") != "one by one";
  threads_ = count_in(root, "threads");
  runs_ = std::max<int64_t>(1, count_in(root, "runs"));
  ranks_ = count_in(root, "ranks");
  const JsonValue& layout = item(root, "layout", Kind::kObject);
  pipeline_ = count_in(layout, "pipeline");
  data_ = count_in(layout, "data");
  tensor_ = count_in(layout, "tensor");
  zero_ = count_in(layout, "zero");
  micro_batch_ = count_in(layout, "micro_batch");
  sequence_ = item(layout, "sequence", Kind::kBool).whole != 0;
  if (pipeline_ > 1) schedule_ = text_in(layout, "schedule");
  for (const JsonValue& layer : item(root, "layers", Kind::kList).items)
    layers_.push_back({text_in(layer, "name"), text_in(layer, "type"), text_in(layer, "output")});
  if (root.find("message_seconds")) message_seconds_ = number_in(root, "message_seconds");
  step_seconds_ = number_in(root, "seconds") / static_cast<double>(runs_);
  read_rank(root);
  size_t others = 0;
  if (root.find("other_ranks"))
    for (const JsonValue& rank : item(root, "other_ranks", Kind::kList).items) {
      read_rank(rank);
      ++others;
    }
  if (ranks_ != static_cast<int64_t>(others) + 1)
    fail_profile(strf("has %zu ranks of %lld", others + 1, static_cast<long long>(ranks_)));
  launch_seconds_ /= static_cast<double>(ranks_);
}

void MeasuredTimes::read_rank(const JsonValue& rank) {
  const double launches =
      static_cast<double>(runs_) * static_cast<double>(count_in(rank, "launches_of_a_run"));
  if (launches > 0) launch_seconds_ += number_in(rank, "outside_seconds") / launches;
  for (const JsonValue& row : item(rank, "ops", Kind::kList).items) {
    MeasuredOp op{text_in(row, "scope"), text_in(row, "op"), text_in(row, "pass"), "", {}, {}};
    if (row.find("collective")) op.collective = text_in(row, "collective");
    op.inputs = texts_in(row, "inputs");
    op.outputs = texts_in(row, "outputs");
    const double seconds = number_in(row, "median_seconds");
    for (const bool with_pass : {true, false}) {
      auto& all = with_pass ? exact_ : loose_;
      Seconds& s = all[key_of(op, with_pass)];
      s.least = s.ranks == 0 ? seconds : std::min(s.least, seconds);
      s.sum += seconds;
      ++s.ranks;
    }
  }
}

std::optional<double> MeasuredTimes::seconds_of(const MeasuredOp& op) const {
  for (const bool with_pass : {true, false}) {
    const auto& all = with_pass ? exact_ : loose_;
    const auto at = all.find(key_of(op, with_pass));
    if (at == all.end()) continue;
    const Seconds& s = at->second;
    return op.collective.empty() ? s.sum / static_cast<double>(s.ranks) : s.least;
  }
  return std::nullopt;
}

void MeasuredTimes::compare_layers(const Plan& plan) const {
  const std::string advice = "measure the model of this plan";
  for (size_t i = 0; i < std::min(layers_.size(), plan.layers.size()); ++i) {
    const Layer& own = plan.layers[i];
    const LayerText& layer = layers_[i];
    const std::string what = strf("layer %zu is another one", i);
    if (layer.name != own.name || layer.type != own.type)
      fail_other(what, "'" + layer.name + "' (" + layer.type + ")",
                 "'" + own.name + "' (" + own.type + ")", advice);
    if (layer.output != program::text(own.output))
      fail_other("the output of layer '" + own.name + "' is another one", layer.output,
                 program::text(own.output), advice);
  }
  if (layers_.size() != plan.layers.size())
    fail_other("the numbers of layers differ", std::to_string(layers_.size()),
               std::to_string(plan.layers.size()), advice);
}

void MeasuredTimes::compare(const Plan& plan) const {
  if (device_ != plan.device)
    fail_other("the devices differ", "'" + device_ + "'", "'" + plan.device + "'",
               "use run.device=" + device_ + ", or measure with run.device=" + plan.device);
  compare_number("micro-batches have other numbers of samples", micro_batch_,
                 plan.experiment.batch.micro, "batch.micro");
  compare_number("layers are divided among other numbers of ranks", tensor_, plan.grid.tensor(),
                 "topology.tensor");
  if (sequence_ != plan.experiment.topology.sequence)
    fail_other("rows are divided in another way", sequence_ ? "topology.sequence" : "no sequence",
               sequence_ ? "does not" : "divides them", "give both the same topology.sequence");
  compare_layers(plan);
}

std::vector<std::string> MeasuredTimes::doubts(const Plan& plan) const {
  std::vector<std::string> all;
  if (!by_launches_ && threads_ != plan.threads)
    all.push_back(strf("a rank of the profile computed on %lld threads, one of this plan has %u",
                       static_cast<long long>(threads_), plan.threads));
  if (plan.grid.pipeline() > 1 && !message_seconds_)
    all.emplace_back(
        "messages between stages were not measured and take no time here; a profile of a run "
        "with topology.pipeline of 2 or more has them");
  if (data_ != plan.grid.data() || zero_ != plan.zero)
    all.push_back(
        strf("the profile has %lld replicas (zero = %lld), this plan %d (zero = %lld): "
             "their collectives may take other times",
             static_cast<long long>(data_), static_cast<long long>(zero_), plan.grid.data(),
             static_cast<long long>(plan.zero)));
  return all;
}

}  // namespace plait::plan

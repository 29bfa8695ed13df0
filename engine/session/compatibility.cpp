#include "engine/session/compatibility.hpp"

#include <set>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/convert.hpp"
#include "engine/checkpoint/survey.hpp"
#include "engine/checkpoint/weights.hpp"
#include "engine/plan/checkpoint_blocks.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/base_weights.hpp"
#include "engine/session/result_config.hpp"

namespace plait::session {
namespace {

const config::ModelConfig& model_of(const plan::Plan& plan, const plan::Parameter& p) {
  for (const auto& model : plan.experiment.models)
    if (model.name == p.model) return model;
  fail_internal("[session] parameter '" + p.name + "' belongs to no model");
}

// " of model.layers[1] (exp.toml:12:1)", or of an adapter; "" where no layer has that name.
std::string of_layer(const plan::Plan& plan, const plan::Parameter& p) {
  for (const auto& adapter : model_of(plan, p).adapters)
    if (adapter.name == p.adapter)
      return " of " + adapter.path + " (" + adapter.origin.text() + ")";
  for (const auto& layer : model_of(plan, p).layers)
    if (starts_with(p.name, p.model + "." + layer.name + "."))
      return " of " + layer.path + " (" + layer.origin.text() + ")";
  return "";
}

// "start a new run with model.load = ...".
std::string start_new(const plan::Plan& plan, const plan::Parameter& p,
                      const checkpoint::Checkpoint& c) {
  const std::string key = model_of(plan, p).path + ".load";
  const std::string file = c.path() + "/model.safetensors";
  return "start a new run with " + key +
         (c.has_file("model.safetensors") ? " = \"" + file + "\""
                                          : ", which takes a file of weights");
}

// The optimizer that a checkpoint's settings name for the parameters of a group (-1: of none), and
// the key of an experiment that does.
struct SavedRule {
  std::string key, type;  // type "": unknown
};
SavedRule saved_rule(const checkpoint::Checkpoint& c, const config::ModelConfig& model,
                     int32_t group) {
  const std::string saved = model.path + ".optimizer";
  for (const std::string& own : {strf(".groups[%d].type", group), std::string(".type")}) {
    const auto at = c.state().settings.find(saved + own);
    if (at == c.state().settings.end()) continue;
    std::string type = at->second;
    std::erase(type, '"');
    if (!type.empty()) return {(model.optimizer ? model.optimizer->path : saved) + own, type};
  }
  return {};
}

[[noreturn]] void fail_state(const plan::Plan& plan, const plan::CheckpointBlock& b,
                             const checkpoint::Checkpoint& c) {
  const plan::Parameter& p = b.parameter;
  const config::ModelConfig& model = model_of(plan, p);
  const std::string state = b.tensor.substr(p.name.size() + 1),
                    own = model.optimizer ? model.optimizer->rule(p.setting).type : "";
  const SavedRule saved = saved_rule(c, model, p.setting);
  const bool same = saved.type == own;
  fail_config("[session] '" + c.path() + "' was saved with " +
              (saved.type.empty() ? "another optimizer" : saved.type) +
              (same ? " of other options" : "") + " and has no state '" + state + "' of " + own +
              " for '" + p.name + "'; resume with " +
              (same || saved.type.empty() ? "the optimizer as it was"
                                          : saved.key + " = \"" + saved.type + "\"") +
              ", or " + start_new(plan, p, c));
}

[[noreturn]] void fail_without_states(const plan::Plan& plan, const plan::Parameter& p,
                                      const checkpoint::Checkpoint& c, FileSystem& files) {
  const std::string with = checkpoint::newest_with_states(files, c.path());
  fail_config(
      "[session] '" + c.path() +
      "' lacks optimizer states (left out by checkpoint.keep_optimizer, or by the "
      "command that wrote it), so no run can continue from it exactly; start a new run " +
      (with.empty() ? "" : "with run.from = \"" + with + "\", the newest one that has them, or ") +
      "with " + model_of(plan, p).path + ".load = \"" + c.path() + "\", its weights alone");
}

}  // namespace

void check_compatibility(const plan::Plan& plan, const checkpoint::Checkpoint& c, FileSystem& files,
                         bool parameters_only) {
  const std::string way_out = "; use the saved model, or start a new run";
  for (const plan::Parameter& p : plan.parameters) {
    const checkpoint::TensorRecord* t = c.find(p.name);
    if (!t && in_base(c.state(), p.name)) continue;
    const auto model =
        std::find_if(plan.experiment.models.begin(), plan.experiment.models.end(),
                     [&](const config::ModelConfig& m) { return m.name == p.model; });
    if (!t && p.is_quantized() && model->load.empty()) {
      const auto seed = static_cast<uint64_t>(plan.experiment.run.seed);
      if (c.state().seed != seed)
        fail_config(
            strf("[session] '%s' leaves out frozen weights that were drawn with run.seed = "
                 "%lu, '%s' among them, and run.seed is %lu; set it to the same",
                 c.path().c_str(), static_cast<unsigned long>(c.state().seed), p.name.c_str(),
                 static_cast<unsigned long>(seed)));
      continue;
    }
    if (!t) {
      std::vector<std::string> names;
      for (const auto& one : c.tensors()) names.push_back(one.name);
      fail_config("[session] '" + c.path() + "' has no parameter '" + p.name + "'" +
                  of_layer(plan, p) + did_you_mean(nearest(p.name, names)) +
                  ": another model was saved" + way_out);
    }
    const plait_shape saved = program::make_shape(t->dtype, t->shape);
    if (!program::same_dims(saved, p.shape) ||
        !checkpoint::is_convertible(saved.dtype, p.shape.dtype))
      fail_config("[session] parameter '" + p.name + "'" + of_layer(plan, p) + " is " +
                  program::text(p.shape) + ", in '" + c.path() + "' it is " + program::text(saved) +
                  way_out);
  }
  if (parameters_only) return;
  plan::for_each_block(plan, [&](const plan::CheckpointBlock& b) {
    if (!b.optimizer || c.find(b.tensor)) return;
    if (c.state().states_left_out) fail_without_states(plan, b.parameter, c, files);
    fail_state(plan, b, c);
  });
}

void warn_of_unread(const plan::Plan& plan, const checkpoint::Checkpoint& c, Log& log) {
  std::set<std::string_view> own;
  for (const plan::Parameter& p : plan.parameters) own.insert(p.name);
  std::vector<std::string> unread;
  for (const checkpoint::TensorRecord& t : c.tensors())
    for (const config::ModelConfig& model : plan.experiment.models)
      if (checkpoint::is_parameter(t) && starts_with(t.name, model.name + ".") &&
          !own.contains(t.name))
        unread.push_back(t.name);
  if (unread.empty()) return;
  log.write(PLAIT_LOG_WARN,
            "[session] '" + c.path() +
                "' has parameters that this model lacks, and which are "
                "not read: '" +
                unread[0] + "'" +
                (unread.size() > 1 ? strf(" and %zu more", unread.size() - 1) : "") +
                "; if they belong to adapters, name these in the experiment as well");
}

void Conversions::log(Log& log, const std::string& path) const {
  for (const auto& [types, n] : counts_) {
    const auto [stored, own] = types;
    log.write(checkpoint::rounds(stored, own) ? PLAIT_LOG_WARN : PLAIT_LOG_INFO,
              "[session] '" + path + "' holds " + checkpoint::conversion_text(stored, own) +
                  ", as [precision] asks for: " + std::to_string(n) +
                  (n == 1 ? " parameter" : " parameters"));
  }
}

void log_conversions(const plan::Plan& plan, const checkpoint::Checkpoint& c, Log& log) {
  Conversions all;
  for (const plan::Parameter& p : plan.parameters)
    if (const checkpoint::TensorRecord* t = c.find(p.name)) all.add(t->dtype, p.shape.dtype);
  all.log(log, c.path());
}

void warn_of_differences(const plan::Plan& plan, const checkpoint::RunState& s,
                         const std::string& path, Log& log) {
  constexpr size_t kMost = 12;
  std::vector<std::string> lines;
  if (!s.settings.empty())
    lines = differences(s.settings, result_config_beside(s.settings, plan));
  else if (s.seed != static_cast<uint64_t>(plan.experiment.run.seed))  // an older engine's
    lines = {strf("run.seed was %lu, is %ld", static_cast<unsigned long>(s.seed),
                  static_cast<long>(plan.experiment.run.seed))};
  if (lines.empty()) return;
  const size_t n = lines.size();
  if (n > kMost) {
    lines.resize(kMost);
    lines.push_back(strf("and %zu more", n - kMost));
  }
  log.warn("[session] resuming with settings that differ from '" + path +
           "': " + join(lines, "; "));
}

}  // namespace plait::session

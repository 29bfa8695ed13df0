#include "engine/session/base_weights.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/weights_hash.hpp"
#include "engine/plan/checkpoint_blocks.hpp"
#include "engine/session/block_access.hpp"

namespace plait::session {

bool BaseWeights::names(const config::ModelConfig& model) const {
  // Without weights to load, what a checkpoint leaves out is drawn again.
  return !model.load.empty() && !plan_.experiment.generate.only &&
         std::any_of(plan_.parameters.begin(), plan_.parameters.end(),
                     [&](const plan::Parameter& p) {
                       return p.model == model.name && !plan::is_saved(plan_, p);
                     });
}

// Of a model whose weights no checkpoint of this run names, the hash is taken now.
const BaseWeights::Read& BaseWeights::known(const config::ModelConfig& model) {
  const auto at = read_.find(model.name);
  if (at != read_.end()) return at->second;
  return read_[model.name] = {files_.real_path(model.load),
                              checkpoint::hash_of_weights(files_, model.load, model.load_names)};
}

namespace {

Hash128 hash_of(runtime::Executor& executor, const plan::LocalBlock& block) {
  Hasher hasher;
  const auto next = pieces_of(executor, block);
  for (auto piece = next(); !piece.empty(); piece = next())
    hasher.update(piece.data(), piece.size());
  return hasher.digest128();
}

}  // namespace

void BaseWeights::remember(runtime::Executor& executor, const plan::Parameter& p) {
  if (!holds(p) || original_.contains(p.name)) return;
  executor.sync();
  auto& blocks = original_[p.name];
  for (const plan::LocalBlock& held : plan::local_parameter_blocks(plan_, p))
    blocks.emplace_back(held.box, hash_of(executor, held));
}

bool BaseWeights::is_original(runtime::Executor& executor, const plan::Parameter& p,
                              const plan::LocalBlock& block, std::span<const char> bytes) const {
  const Hash128 given = hash128(bytes.data(), bytes.size());
  const auto known = original_.find(p.name);
  if (known == original_.end()) return given == hash_of(executor, block);
  return std::any_of(known->second.begin(), known->second.end(), [&](const auto& one) {
    return one.first == block.box && one.second == given;
  });
}

void BaseWeights::written(const plan::Parameter& p) {
  if (!plan::is_saved(plan_, p) && !told_.contains(p.name)) written_.insert(p.name);
  if (holds(p)) changed_[p.model].insert(p.name);
}

bool BaseWeights::holds(const plan::Parameter& p) const {
  return p.frozen && p.adapter.empty() && !plan_.experiment.model(p.model)->load.empty();
}

std::string BaseWeights::changed(const config::ModelConfig& model) const {
  const auto at = changed_.find(model.name);
  return at != changed_.end() && !at->second.empty() ? *at->second.begin() : "";
}

void BaseWeights::warn_of_written() {
  if (written_.empty()) return;
  const size_t n = written_.size();
  log_.warn("[session] '" + *written_.begin() + "'" +
            (n > 1 ? strf(" and %zu more were", n - 1) : " was") +
            " written since the session began, and checkpoints of this run leave " +
            (n > 1 ? "them" : "it") +
            " out (checkpoint.save = \"trained\", or precision.frozen): whoever loads one must "
            "write the same again, or save all with checkpoint.save = \"all\"");
  told_.merge(written_);
  written_.clear();
}

checkpoint::BaseRecord BaseWeights::record(
    const config::ModelConfig& model, const std::function<bool(const plan::Parameter&)>& left_out) {
  const Read& from = known(model);
  checkpoint::BaseRecord base{model.name, from.path, from.hash, {}};
  for (const plan::Parameter& p : plan_.parameters)
    if (p.model == model.name && left_out(p)) base.parameters.push_back(p.name);
  std::sort(base.parameters.begin(), base.parameters.end());
  return base;
}

std::vector<checkpoint::BaseRecord> BaseWeights::records() {
  warn_of_written();
  std::vector<checkpoint::BaseRecord> bases;
  for (const config::ModelConfig& model : plan_.experiment.models)
    if (names(model))
      bases.push_back(
          record(model, [&](const plan::Parameter& p) { return !plan::is_saved(plan_, p); }));
  return bases;
}

std::vector<checkpoint::BaseRecord> BaseWeights::beside_adapter(const config::ModelConfig& model) {
  // Without weights to load, the model's own are drawn again.
  if (model.load.empty()) return {};
  checkpoint::BaseRecord base =
      record(model, [](const plan::Parameter& p) { return p.adapter.empty() && p.frozen; });
  if (base.parameters.empty()) return {};
  return {std::move(base)};
}

void BaseWeights::check(const checkpoint::Checkpoint& c) {
  for (const checkpoint::BaseRecord& base : c.state().bases) {
    const auto model =
        std::find_if(plan_.experiment.models.begin(), plan_.experiment.models.end(),
                     [&](const config::ModelConfig& m) { return m.name == base.model; });
    if (model == plan_.experiment.models.end()) continue;
    const std::string what = "[session] '" + c.path() +
                             "' holds what was trained, beside the weights '" +
                             printable(base.path) + "'",
                      key = model->path + ".load";
    if (model->load.empty())
      fail_config(what + ", and " + key + " names none; set " + key + " to these weights");
    const Read& found = known(*model);
    if (found.hash != base.hash)
      fail_config(what + " with the hash " + base.hash.hex() + ", and " + key + " names '" +
                  model->load + "' with " + found.hash.hex() + ": other weights" +
                  (found.path == base.path ? ", or other " + key + "_names" : "") + "; set " + key +
                  " to those that it was trained beside");
  }
}

bool in_base(const checkpoint::RunState& state, const std::string& parameter) {
  return std::any_of(state.bases.begin(), state.bases.end(), [&](const auto& base) {
    return std::binary_search(base.parameters.begin(), base.parameters.end(), parameter);
  });
}

}  // namespace plait::session

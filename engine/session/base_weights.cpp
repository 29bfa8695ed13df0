#include "engine/session/base_weights.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/checkpoint/weights_hash.hpp"
#include "engine/plan/checkpoint_blocks.hpp"

namespace plait::session {

std::vector<checkpoint::BaseRecord> bases_of(const plan::Plan& plan, FileSystem& files) {
  std::vector<checkpoint::BaseRecord> bases;
  for (const config::ModelConfig& model : plan.experiment.models) {
    // Without weights to load, what a checkpoint leaves out is drawn again.
    if (model.load.empty()) continue;
    checkpoint::BaseRecord base{model.name, "", {}, {}};
    for (const plan::Parameter& p : plan.parameters)
      if (p.model == model.name && !plan::is_saved(plan, p)) base.parameters.push_back(p.name);
    if (base.parameters.empty()) continue;
    std::sort(base.parameters.begin(), base.parameters.end());
    base.path = files.real_path(model.load);
    base.hash = checkpoint::hash_of_weights(files, model.load);
    bases.push_back(std::move(base));
  }
  return bases;
}

bool in_base(const checkpoint::RunState& state, const std::string& parameter) {
  return std::any_of(state.bases.begin(), state.bases.end(), [&](const auto& base) {
    return std::binary_search(base.parameters.begin(), base.parameters.end(), parameter);
  });
}

void check_bases(const plan::Plan& plan, const checkpoint::Checkpoint& c, FileSystem& files) {
  for (const checkpoint::BaseRecord& base : c.state().bases) {
    const auto model =
        std::find_if(plan.experiment.models.begin(), plan.experiment.models.end(),
                     [&](const config::ModelConfig& m) { return m.name == base.model; });
    if (model == plan.experiment.models.end()) continue;
    const std::string what = "[session] '" + c.path() +
                             "' holds what was trained, beside the weights '" +
                             printable(base.path) + "'",
                      key = model->path + ".load";
    if (model->load.empty())
      fail_config(what + ", and " + key + " names none; set " + key + " to these weights");
    const Hash128 hash = checkpoint::hash_of_weights(files, model->load);
    if (hash != base.hash)
      fail_config(what + " with the hash " + base.hash.hex() + ", and " + key + " names '" +
                  model->load + "' with " + hash.hex() + ": other weights; set " + key +
                  " to those that it was trained beside");
  }
}

}  // namespace plait::session

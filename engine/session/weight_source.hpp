// Weights that an experiment names, and which of their tensors each parameter gets.
#pragma once

#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/plan/plan.hpp"

namespace plait::session {

// Of a model, or of one of its adapters.
struct WeightSource {
  const config::ModelConfig& model;
  const config::AdapterConfig* adapter;  // NULL: for the model and adapters without their own
  std::string key, path;                 // "model.load", and its value
  // Of an adapter: it gives the model's own trained parameters that it has, too.
  bool beside = false;

  bool gives(const plan::Parameter& p) const;
  // That the parameter may have there, the likeliest first.
  std::vector<std::string> names(const plan::Parameter& p) const;
  const std::vector<std::string>& may_be_missing() const;
  const std::vector<std::string>& may_be_unexpected() const;
};

// Whether a rule of load_names renames one of the model's parameters, of their full names.
bool is_used(const std::string& rule, const std::string& model,
             const std::vector<std::string>& parameters);

struct GivenTensor {
  const plan::Parameter* parameter;
  std::string name;  // there
};

// The tensors of the parameters that a source gives, in the order of the plan. Parameters that it
// lacks and may lack are left out: what load_missing names, and all of an adapter.
// names: of its tensors; bases: of a checkpoint, empty where it holds all parameters. log: told
// which parameters keep their initial values by load_missing; NULL for none. initial: gets a line
// for each adapter that starts with its initial values, unless a checkpoint follows.
// Errors: PLAIT_ERR_DATA for parameters that it lacks and tensors that no parameter gets, with
// their names and the keys that allow them; PLAIT_ERR_CONFIG for a pattern of load_unexpected that
// matches no tensor.
std::vector<GivenTensor> tensors_of(const WeightSource& source, const plan::Plan& plan,
                                    const std::vector<std::string>& names,
                                    const std::vector<checkpoint::BaseRecord>& bases, Log* log,
                                    std::vector<std::string>& initial);

}  // namespace plait::session

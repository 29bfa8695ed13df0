// The parameters of a session: initial values, weights from files, and access for the host.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/weights.hpp"
#include "engine/session/session_context.hpp"
#include "engine/session/step_runner.hpp"

namespace plait::session {

// Owner thread only; every rank makes the same calls in the same order.
class Parameters {
 public:
  Parameters(SessionContext& context, StepRunner& steps) : c_(context), steps_(steps) {}

  // Gives parameters and optimizer states their initial values, or the values of model.load.
  void initialize();
  // Gives one parameter the initial values that it was requested with.
  void draw(const plan::Parameter& p);
  // Whether model.load had the adapter.
  bool loaded(const std::string& model, const std::string& adapter) const {
    return loaded_.contains({model, adapter});
  }
  const plan::Parameter& find(const std::string& name) const;  // throws with the nearest name
  // All of a parameter, on every rank; bytes: its size. Errors: PLAIT_ERR_INVALID for another size.
  void read(const std::string& name, void* data, uint64_t bytes);
  void write(const std::string& name, const void* data, uint64_t bytes);

 private:
  // Weights that an experiment names for a model, or for one of its adapters.
  struct Source {
    const config::ModelConfig& model;
    const config::AdapterConfig* adapter;  // NULL: for the model and adapters without their own
    std::string key, path;                 // "model.load", and its value
    bool gives(const plan::Parameter& p) const;
    std::vector<std::string> names(const plan::Parameter& p) const;  // that it may have there
  };
  void load_weights(const Source& from);
  void load_checkpoint(const Source& from);
  void load_tensor(const plan::Parameter& p, const checkpoint::Weights::Place& place,
                   const Source& from);

  SessionContext& c_;
  StepRunner& steps_;
  std::set<std::pair<std::string, std::string>> loaded_;  // adapters: model and name
};

}  // namespace plait::session

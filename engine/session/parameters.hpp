// The parameters of a session: initial values, weights from files, and access for the host.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/weights.hpp"
#include "engine/session/base_weights.hpp"
#include "engine/session/session_context.hpp"
#include "engine/session/step_runner.hpp"
#include "engine/session/weight_source.hpp"

namespace plait::session {

// Owner thread only; every rank makes the same calls in the same order.
class Parameters {
 public:
  Parameters(SessionContext& context, StepRunner& steps, BaseWeights& bases)
      : c_(context),
        steps_(steps),
        bases_(bases),
        log_(context.ranks.is_leader() ? &context.log : nullptr) {}

  // Gives parameters and optimizer states their initial values, or the values of model.load.
  void initialize();
  // Gives one parameter the initial values that it was requested with.
  void draw(const plan::Parameter& p);
  // Gives the states of its optimizer their initial values, also where they are 0.
  void reset_states(const plan::Parameter& p);
  // Whether model.load had the adapter.
  bool loaded(const std::string& model, const std::string& adapter) const {
    return loaded_.contains({model, adapter});
  }
  // Once, before they are used: which adapters have their initial values.
  void before_use() {
    if (!initial_.empty()) tell_initial();
  }
  // A checkpoint gives the values.
  void forget_initial() { initial_.clear(); }
  const plan::Parameter& find(const std::string& name) const;  // throws with the nearest name
  // All of a parameter, on every rank; bytes: its size. Errors: PLAIT_ERR_INVALID for another size.
  void read(const std::string& name, void* data, uint64_t bytes);
  void write(const std::string& name, const void* data, uint64_t bytes);

 private:
  void load_weights(const WeightSource& from);
  void load_checkpoint(const WeightSource& from);
  void tell_initial();
  void load_tensor(const plan::Parameter& p, const checkpoint::Weights::Place& place,
                   const WeightSource& from);
  // zero: the memory is zero already.
  void initialize_states(const plan::Parameter& p, bool zero);

  SessionContext& c_;
  StepRunner& steps_;
  BaseWeights& bases_;
  Log* log_;                                              // of rank 0; NULL on the others
  std::set<std::pair<std::string, std::string>> loaded_;  // adapters: model and name
  std::map<std::string, std::string> beside_;  // parameters of models: the adapter that gave them
  std::vector<std::string> initial_;           // lines of those that keep their initial values
};

}  // namespace plait::session

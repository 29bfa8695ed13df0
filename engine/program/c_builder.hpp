// plait_builder: the interface through which layers, losses, metrics, optimizers and gradient rules
// of plugins append ops.
#pragma once

#include <plait/build.h>

#include <functional>
#include <string>

#include "engine/program/graph.hpp"

namespace plait::program {

// Functions of a builder other than ops, which depend on the caller; an empty hook makes the call
// fail with PLAIT_ERR_STATE.
struct BuildHooks {
  std::function<ValueId(const plait_parameter&)> parameter;
  std::function<ValueId(const std::string& name)> named;
  std::function<ValueId(const std::string& name, double initial)> state;
  std::function<ValueId(const plait_state&)> tensor_state;
  std::function<void(const std::string& name, ValueId)> set_state;
  // A value with the shape of `like`, filled with uniform random numbers in [0, 1).
  std::function<ValueId(ValueId like)> random_uniform;
  bool training = false;
};

// Exists on the stack during one build call.
class CBuilder {
 public:
  CBuilder(Graph& g, const BuildHooks& hooks);
  CBuilder(const CBuilder&) = delete;
  CBuilder& operator=(const CBuilder&) = delete;
  plait_builder* get() { return &handle_.base; }

  // The C interface; `base` is the first member, so that a plait_builder* is a CHandle*.
  struct CHandle {
    plait_builder base;
    Graph* g;
    const BuildHooks* hooks;
  };

 private:
  CHandle handle_;
};

}  // namespace plait::program

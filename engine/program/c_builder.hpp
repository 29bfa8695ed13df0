// plait_builder: what layers, losses, metrics, optimizers and gradient rules of plugins write through.
#pragma once

#include <plait/build.h>

#include <functional>
#include <string>

#include "engine/program/graph.hpp"

namespace plait::program {

// What a builder offers beyond ops depends on who builds; an empty hook answers PLAIT_ERR_STATE.
struct BuildHooks {
  std::function<ValueId(const plait_parameter&)> parameter;
  std::function<ValueId(const std::string& name)> named;
  std::function<ValueId(const std::string& name, double initial)> state;
  std::function<void(const std::string& name, ValueId)> set_state;
  // A value of uniform numbers in [0, 1) of the shape of `like`.
  std::function<ValueId(ValueId like)> random_uniform;
  bool training = false;
};

// Lives on the stack of one build call.
class CBuilder {
 public:
  CBuilder(Graph& g, const BuildHooks& hooks);
  CBuilder(const CBuilder&) = delete;
  CBuilder& operator=(const CBuilder&) = delete;
  plait_builder* get() { return &handle_.base; }

  // The C face; `base` first, so that a plait_builder* is a CHandle*.
  struct CHandle {
    plait_builder base;
    Graph* g;
    const BuildHooks* hooks;
  };

 private:
  CHandle handle_;
};

}  // namespace plait::program

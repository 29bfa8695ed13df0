// The ops of one engine: core ops, then ops of plugins.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/plugin/registry.hpp"
#include "engine/program/op_def.hpp"

namespace plait::program {

// Plan-time only, one thread.
class OpRegistry {
 public:
  explicit OpRegistry(const plugin::Registry& registry) : registry_(registry) {}
  // Never null: throws PLAIT_ERR_NOT_FOUND with the nearest name.
  const OpDef* find(std::string_view op) const;
  // All ops that a plugin may write, sorted by name.
  std::vector<const OpDef*> all() const;

 private:
  const OpDef* of_plugin(std::string_view op) const;  // nullptr: no plugin has it

  const plugin::Registry& registry_;
  mutable std::map<std::string, OpDef, std::less<>> of_plugins_;
};

}  // namespace plait::program

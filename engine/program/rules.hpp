// The rules of one engine: its own ops, then those that plugins brought.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/plugin/registry.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {

// Plan-time only, one thread.
class RuleBook : public Rules {
 public:
  explicit RuleBook(const plugin::Registry& registry) : registry_(registry) {}
  const Rule* find(std::string_view op) const override;

 private:
  const plugin::Registry& registry_;
  mutable std::map<std::string, Rule, std::less<>> of_plugins_;
};

}  // namespace plait::program

// The engine as a plugin sees it: plait_host.
#pragma once

#include <plait/plugin.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/base/log.hpp"

namespace plait::plugin {

class Registry;

// Tables that the host offers by id, e.g. {"plait.options/1", &table}. The tables must outlive the
// registry.
using Extensions = std::vector<std::pair<std::string, const void*>>;

// One per (engine, plugin). Its errors are plait_error objects of engine/base/c_error.hpp.
class Host : public plait_host {
 public:
  Host(Registry& registry, Log& log, const Extensions& extensions, std::string plugin);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  const std::string& plugin() const { return plugin_; }
  // For the tables that the host offers: where items of other plugins are found.
  const Registry& registry() const { return registry_; }
  // add() is allowed only between these two calls.
  void begin_open() { opening_ = true; }
  void end_open() { opening_ = false; }
  // Items that were not added, as another plugin has one of that name: "layer 'x' is offered ...".
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  friend struct HostCalls;
  Registry& registry_;
  Log& log_;
  const Extensions& extensions_;
  std::string plugin_;
  bool opening_ = false;
  mutable std::vector<std::string> left_out_;  // plugins hold their host as a const
};

}  // namespace plait::plugin

// The devices of the loaded plugins, and which of them can be opened on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/option_set.hpp"
#include "engine/plugin/registry.hpp"

namespace plait::plan {

// Whether the device's probe() says that open() with these options would succeed; true for a device
// without one. detail: what it found, or why not. May look for a driver.
bool probe_device(const plugin::Registry& registry, const std::string& name,
                  const config::OptionSet& options, std::string& detail);

// The names of all devices in the order in which "auto" tries them.
std::vector<std::string> devices_by_priority(const plugin::Registry& registry);

// All devices in that order, probed with the defaults of their options:
// {"schema": 1, "devices": [{"name", "help", "plugin", "priority", "usable", "detail"}]}
std::string devices_json(const plugin::Registry& registry);

}  // namespace plait::plan

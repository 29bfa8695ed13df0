#include "engine/plan/devices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/config/experiment.hpp"

namespace plait::plan {

bool probe_device(const plugin::Registry& registry, const std::string& name,
                  const config::OptionSet& options, std::string& detail) {
  const plait_device_item& item = registry.device(name);
  constexpr size_t kSize = offsetof(plait_device_item, probe) + sizeof(item.probe);
  if (item.struct_size < kSize || !item.probe) return true;
  char text[512] = "";
  const bool there = call_plugin({registry.plugin_of(&item), "probe", "device", name}, [&] {
                       return item.probe(registry.host_of(&item), &options, text, sizeof text);
                     }) != 0;
  detail = std::string(text, strnlen(text, sizeof text));
  return there;
}

std::vector<std::string> devices_by_priority(const plugin::Registry& registry) {
  std::vector<std::string> names = registry.devices();
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return registry.device(a).priority > registry.device(b).priority;
  });
  return names;
}

std::string devices_json(const plugin::Registry& registry) {
  JsonWriter w;
  w.object().field("schema", 1).key("devices").array();
  for (const std::string& name : devices_by_priority(registry)) {
    const plait_device_item& item = registry.device(name);
    config::Problems none;
    const config::OptionSet defaults =
        config::device_options(config::Experiment(), registry, name, config::PathResolver(), none);
    std::string detail;
    bool usable = false;
    try {
      usable = probe_device(registry, name, defaults, detail);
    } catch (const Error& e) {  // of a plugin; the others are still told of
      detail = e.full_text();
    }
    w.object().field("name", name).field("help", item.help ? item.help : "");
    w.field("plugin", registry.plugin_of(&item)).field("priority", item.priority);
    w.field("usable", usable).field("detail", detail).end_object();
  }
  return w.end_array().end_object().text();
}

}  // namespace plait::plan

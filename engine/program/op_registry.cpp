#include "engine/program/op_registry.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/program/plugin_op.hpp"

namespace plait::program {
namespace {

using ByName = std::map<std::string_view, const OpDef*>;

const ByName& core_by_name() {
  static const ByName kAll = [] {
    ByName all;
    for (const OpDef* def : core_ops())
      if (!all.emplace(def->name, def).second)
        fail_internal(std::string("[program] op '") + def->name + "' is defined twice");
    return all;
  }();
  return kAll;
}

}  // namespace

const OpDef* OpRegistry::of_plugin(std::string_view op) const {
  if (auto it = of_plugins_.find(op); it != of_plugins_.end()) return &it->second;
  const plait_op_item* item = registry_.find_op(op);
  if (!item) return nullptr;
  return &of_plugins_.emplace(std::string(op), plugin_op(*item, registry_.host_of(item)))
              .first->second;
}

const OpDef* OpRegistry::find(std::string_view op) const {
  const ByName& core = core_by_name();
  if (auto it = core.find(op); it != core.end()) return it->second;
  if (const OpDef* def = of_plugin(op)) return def;
  std::vector<std::string> names;
  for (const OpDef* def : all()) names.emplace_back(def->name);
  fail_not_found("[program] there is no op '" + std::string(op) + "'" +
                 did_you_mean(nearest(std::string(op), names)));
}

std::vector<const OpDef*> OpRegistry::all() const {
  std::vector<const OpDef*> all;
  for (const OpDef* def : core_ops())
    if (def->audience == Audience::kEveryone) all.push_back(def);
  for (const std::string& name : registry_.item_names(PLAIT_KIND_OP))
    if (const OpDef* def = of_plugin(name)) all.push_back(def);
  std::sort(all.begin(), all.end(),
            [](const OpDef* a, const OpDef* b) { return std::strcmp(a->name, b->name) < 0; });
  return all;
}

}  // namespace plait::program

#include "engine/program/rules.hpp"

#include "engine/base/error.hpp"

namespace plait::program {

const Rule* RuleBook::find(std::string_view op) const {
  for (const Rule* r : core_rules())
    if (op == r->name) return r;
  if (auto it = of_plugins_.find(op); it != of_plugins_.end()) return &it->second;
  if (const plait_op_item* item = registry_.find_op(op)) {
    Rule r{item->name, nullptr, nullptr};
    r.item = item;
    r.host = registry_.host_of(item);
    return &of_plugins_.emplace(std::string(op), r).first->second;
  }
  std::vector<std::string> names = elementwise_names();
  for (const Rule* r : core_rules()) names.emplace_back(r->name);
  for (const std::string& name : registry_.item_names(PLAIT_KIND_OP)) names.push_back(name);
  fail_not_found("[program] there is no op '" + std::string(op) + "'" +
                 did_you_mean(nearest(std::string(op), names)));
}

}  // namespace plait::program

#include "engine/session/deciding.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/config/bind.hpp"

namespace plait::session {
namespace {

bool decides(const plan::Plan& plan, const std::string& key) {
  if (key == "run.seed" || key == "batch.global" || starts_with(key, "precision.")) return true;
  if (starts_with(key, "data.train.")) {
    // Where the data lies is no matter, what it is stands beside.
    const config::OptionValue* option = plan.experiment.dataset("train")->options.find(
        key.substr(std::string("data.train.").size()));
    return key != "data.train.prefetch" && (!option || option->declared->type != PLAIT_OPT_PATH);
  }
  return std::any_of(
      plan.experiment.models.begin(), plan.experiment.models.end(), [&](const auto& model) {
        if (!starts_with(key, model.path + ".")) return false;
        const std::string rest = key.substr(model.path.size() + 1);
        return rest != "load" && !starts_with(rest, "metrics[") && !ends_with(rest, ".parallel");
      });
}

bool has_schedule(const plan::Plan& plan) {
  return std::any_of(plan.groups.begin(), plan.groups.end(),
                     [](const plan::Group& g) { return g.schedule != nullptr; });
}

}  // namespace

Deciding deciding(const plan::Plan& plan) {
  Deciding all;
  const auto json = nlohmann::json::parse(config::describe_json(plan.experiment));
  for (const auto& [key, entry] : json.items())
    if (decides(plan, key)) all[key] = entry.at("value").dump();
  const plait_dataset_info& data = plan.dataset("train")->info();
  all["content of [data.train]"] =
      strf("%ld samples, %s", static_cast<long>(data.n_samples), hex64(data.fingerprint).c_str());
  if (has_schedule(plan))
    all["steps that the schedule counts on"] = std::to_string(plan.total_steps);
  return all;
}

std::vector<std::string> differences(const Deciding& then, const Deciding& now) {
  std::vector<std::string> lines;
  for (const auto& [key, was] : then) {
    const auto is = now.find(key);
    if (is == now.end())
      lines.push_back(key + " was " + was + ", is not there any more");
    else if (is->second != was)
      lines.push_back(key + " was " + was + ", is " + is->second);
  }
  for (const auto& [key, is] : now)
    if (!then.contains(key)) lines.push_back(key + " was not there, is " + is);
  return lines;
}

}  // namespace plait::session

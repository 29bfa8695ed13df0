#include "engine/session/identity.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>

#include "engine/base/files.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/config/bind.hpp"
#include "engine/config/schema.hpp"
#include "engine/plan/layout.hpp"

namespace plait::session {
namespace {

using Identity = std::vector<std::pair<std::string, std::string>>;

// Ranks may differ in the options of their devices, and in the keys of sections whose role says so.
bool is_per_rank(const std::string& table, const std::string& key) {
  if (table == "device") return true;
  for (const config::Section& s : config::sections())
    if (const plait_option* declared = table == s.path ? s.options.find(key) : nullptr)
      return config::role_of(*declared) == config::KeyRole::kPerRank;
  return false;
}

// Every key of the bound experiment, by its full name: "model.layers[2].out".
void add_keys(const plan::Plan& plan, Identity& to) {
  std::string table;
  std::map<std::string, int> entries;
  for (const std::string& line : split(config::bind(plan.experiment, *plan.registry), '\n')) {
    const std::string text(trim(line));
    if (text.empty() || text[0] == '#') continue;
    if (starts_with(text, "[[")) {
      table = text.substr(2, text.size() - 4);
      table += "[" + std::to_string(entries[table]++) + "]";
    } else if (text[0] == '[') {
      table = text.substr(1, text.size() - 2);
    } else if (const size_t at = text.find(" = "); at != std::string::npos) {
      const std::string key = text.substr(0, at);
      if (!is_per_rank(table, key)) to.emplace_back(table + "." + key, text.substr(at + 3));
    }
  }
}

void add_plugins(const plan::Plan& plan, Identity& to) {
  const auto hash_of = [](const std::string& path) {
    return hash128_file(FileSystem::posix(), path).hex().substr(0, 12);
  };
  for (const auto& entry : plan.registry->report().entries)
    if (entry.outcome == plugin::Outcome::kLoaded)
      to.emplace_back("plugin " + entry.name,
                      entry.version + (entry.has_file ? " " + hash_of(entry.path) : ""));
}

// The collectives of the ranks, in order.
std::string exchanges_of(const plan::Plan& plan) {
  Hasher h;
  // Stages differ, but messages between stages and collectives over all ranks must agree.
  const bool staged = plan.grid.pipeline() > 1;
  for (const plan::Collective& e : plan.collectives) {
    const bool message = e.kind == PLAIT_COMM_SEND || e.kind == PLAIT_COMM_RECEIVE;
    if (e.own_replica) continue;
    if (!staged || (e.axis == topology::Axis::kPipeline && !message))
      h.update(plan::text(e) + std::to_string(e.peer));
  }
  if (!staged) return hex64(h.digest64());
  h.update(hex64(plan.pipeline.digest));
  // Collectives of replicas within a stage, and of the holders of tied parameters, follow from the
  // placement of parameters.
  for (const plan::Parameter& p : plan.parameters) {
    const std::string group =
        p.group < 0 ? "frozen" : plan::segment_name(plan.groups[static_cast<size_t>(p.group)]);
    h.update(
        strf("%s %s %ld", p.name.c_str(), group.c_str(), static_cast<long>(p.stored_elements)));
    for (const int32_t r : p.holders) h.update(" " + std::to_string(r));
  }
  return hex64(h.digest64());
}

}  // namespace

Identity identity_of(const plan::Plan& plan) {
  Identity all{{"engine", PLAIT_VERSION}, {"device", plan.device}};
  add_plugins(plan, all);
  add_keys(plan, all);
  for (const auto& d : plan.datasets)
    all.emplace_back("samples of [data." + d->name() + "]", std::to_string(d->info().n_samples));
  all.emplace_back("parameters", hex64(plan.hash()));
  all.emplace_back("collectives", exchanges_of(plan));
  return all;
}

std::vector<std::string> contents_of(const plan::Plan& plan) {
  std::vector<std::string> all;
  for (const auto& d : plan.datasets)
    all.push_back(d->has_samples() ? hex64(d->info().fingerprint) : "");
  return all;
}

std::string differing_contents(const plan::Plan& plan,
                               const std::vector<std::vector<std::string>>& of_ranks) {
  for (size_t i = 0; i < plan.datasets.size(); ++i) {
    const auto of = [&](size_t r) { return i < of_ranks[r].size() ? of_ranks[r][i] : ""; };
    size_t first = 0;  // that knows it
    while (first + 1 < of_ranks.size() && of(first).empty()) ++first;
    for (size_t r = first + 1; r < of_ranks.size(); ++r)
      if (!of(r).empty() && of(r) != of(first))
        return strf(
            "[session] the content of [data.%s] is %s on rank %zu, and %s on rank %zu; give "
            "all ranks the same files",
            plan.datasets[i]->name().c_str(), of(r).c_str(), r, of(first).c_str(), first);
  }
  return "";
}

}  // namespace plait::session

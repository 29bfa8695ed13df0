#include "bindings/cli/ranks.hpp"

#include <algorithm>

#include "bindings/cli/help/declarations.hpp"
#include "bindings/cli/launch/cores.hpp"

namespace plait::cli {

RankInfo rank_info(const Json& job) {
  RankInfo own;
  own.rank = job.value("rank", 0);
  own.size = job.value("size", 1);
  own.local_rank = job.value("local_rank", 0);
  own.local_size = job.value("local_size", 1);
  own.source = job.value("source", "");
  own.reason = job.value("reason", "");
  return own;
}

int64_t ranks_of(const Json& experiment) {
  constexpr int64_t kMost = 1 << 20;  // more than any job has; avoids overflow of the product
  int64_t ranks = 1;
  for (const char* key : {"topology.pipeline", "topology.data", "topology.tensor"})
    if (const auto size = experiment.find(key); size != experiment.end())
      ranks *= std::clamp<int64_t>(size->value("value", int64_t{1}), 1, kMost / ranks + 1);
  return ranks;
}

std::string no_processes_reason(const Engine& engine, const Json& values) {
  const std::string name = values.value("topology.backend", Json::object()).value("value", "auto");
  if (name == "auto" || ranks_of(values) == 1) return "";
  const Declarations declared(engine);
  const Json& backend = declared.item("plait.comm/1", name);
  if (backend.is_null() || !backend.value("one_process", false)) return "";
  return "backend '" + name +
         "' connects ranks that are threads of one process, as of a host program; plait starts " +
         strf("%lld processes", static_cast<long long>(ranks_of(values)));
}

std::string cores_for(int64_t ranks) {
  const auto cores = static_cast<int64_t>(allowed_cores().size());
  if (cores < ranks)
    return strf("on this machine, which has %lld core%s for them", static_cast<long long>(cores),
                cores == 1 ? "" : "s");
  const auto least = static_cast<long long>(cores / ranks);
  if (cores % ranks) return strf("on this machine, with %lld or %lld cores each", least, least + 1);
  return strf("on this machine, with %lld core%s each", least, least == 1 ? "" : "s");
}

}  // namespace plait::cli

#include "bindings/cli/one_rank.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace plait::cli {

std::vector<std::string> on_one_rank(const Json& values) {
  const auto number = [&](const char* key) { return values.at(key).at("value").get<int64_t>(); };
  const int64_t replicas = std::max<int64_t>(1, number("topology.data"));
  int64_t micro = number("batch.micro"), batch = number("batch.eval");
  if (micro == 0)  // the global batch is given then
    micro = number("batch.global") / replicas / std::max<int64_t>(1, number("batch.accumulation"));
  if (batch == 0) batch = micro * replicas;
  std::vector<std::string> all = {"topology.data=1",
                                  "topology.tensor=1",
                                  "topology.pipeline=1",
                                  "topology.virtual_stages=1",
                                  "topology.schedule=1f1b",
                                  "topology.stages=[]",
                                  "topology.zero=0",
                                  "batch.accumulation=0",
                                  "batch.micro=" + std::to_string(micro),
                                  "batch.eval=" + std::to_string(batch)};
  // The budget was chosen for the memory of one rank of many.
  if (values.at("topology.recompute").at("value") == "budget")
    all.emplace_back("topology.recompute=layer");
  return all;
}

}  // namespace plait::cli

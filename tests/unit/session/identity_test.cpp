// The properties that ranks compare when they join.
#include "engine/session/identity.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>

#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;

const std::vector<std::string> kPipeline = {
    "topology.pipeline=2", "topology.data=2", "topology.schedule=1f1b",
    "model.layers=[{type=\"linear\",name=\"a\",out=6},{type=\"relu\"},{type=\"linear\",out=6},{"
    "type="
    "\"linear\",out=6,tie={weight=\"model.a.weight\"}},{type=\"linear\",out=4}]"};

struct Ranks {
  Log log;
  std::unique_ptr<const plan::Plan> make(int rank, const std::string& key = "run.seed=5") {
    auto keys = kPipeline;
    keys.push_back(key);
    return test::make_plan(keys, FileSystem::posix(), rank, 4, log);
  }
};

std::string exchanges_of(const plan::Plan& plan) {
  const auto identity = session::identity_of(plan);
  return std::map<std::string, std::string>(identity.begin(), identity.end()).at("collectives");
}

TEST_CASE("ranks of a pipeline agree on their shared values, each in its own stage") {
  Ranks ranks;
  const std::string first = exchanges_of(*ranks.make(0));
  for (int rank = 1; rank < 4; ++rank) CHECK(exchanges_of(*ranks.make(rank)) == first);
}

TEST_CASE("ranks of a pipeline differ when anything that is exchanged does") {
  Ranks ranks;
  const std::string first = exchanges_of(*ranks.make(0));
  plan::Plan plan = *ranks.make(3);
  const auto tied = std::find_if(plan.parameters.begin(), plan.parameters.end(),
                                 [](const plan::Parameter& p) { return p.holders.size() > 1; });
  REQUIRE(tied != plan.parameters.end());
  SUBCASE("the holders of a tied parameter") { tied->holders.pop_back(); }
  SUBCASE("how much of one there is") { plan.parameters[0].stored_elements += 1; }
  SUBCASE("which group it is in") {
    plan.groups[static_cast<size_t>(plan.parameters[0].group)].name += "x";
  }
  SUBCASE("the collectives of all stages") {
    const auto sum = std::find_if(
        plan.collectives.begin(), plan.collectives.end(), [](const plan::Collective& e) {
          return e.axis == topology::Axis::kPipeline && e.kind == PLAIT_COMM_ALL_REDUCE;
        });
    REQUIRE(sum != plan.collectives.end());
    sum->n += 1;
  }
  CHECK(exchanges_of(plan) != first);
}

TEST_CASE("replicas differ when any of their collectives does") {
  Log log;
  const auto make = [&](int rank) {
    return test::make_plan({"topology.data=2"}, FileSystem::posix(), rank, 2, log);
  };
  const std::string first = exchanges_of(*make(0));
  CHECK(exchanges_of(*make(1)) == first);
  plan::Plan plan = *make(1);
  REQUIRE_FALSE(plan.collectives.empty());
  SUBCASE("its size") { plan.collectives.back().n += 1; }
  SUBCASE("its place") { plan.collectives.pop_back(); }
  CHECK(exchanges_of(plan) != first);
}

TEST_CASE("messages of an evaluation count, too") {
  Ranks ranks;
  CHECK(exchanges_of(*ranks.make(1, "batch.eval=16")) != exchanges_of(*ranks.make(1)));
}

}  // namespace

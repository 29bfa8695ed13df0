// Which optimizers and parameters the check of padding refuses.
#include "engine/plan/padding.hpp"

#include <doctest/doctest.h>

#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::plan;
using program::ValueId;

namespace {

// Two groups of which the first has one parameter of n entries, sharded over the tensor ranks.
Plan plan_of(int64_t tensor, int64_t n) {
  Plan plan;
  plan.grid = topology::Grid(1, 1, tensor);
  plan.groups.resize(2);
  plan.groups[0].name = "all";
  Parameter p;
  p.name = "weight";
  p.shape = program::make_shape(PLAIT_F32, {n, 4});
  p.shard_dim = 0;
  p.sharded = tensor > 1;
  p.group = 0;
  plan.parameters.push_back(p);
  return plan;
}

// A rule for one element, as declare_states() writes it.
struct Rule : program::GraphFixture {
  ValueId input(const char* name) {
    return g.persistent(name, program::make_shape(PLAIT_F32, {1}), {});
  }
  void update(ValueId what, ValueId next) { g.assign(what, next); }
  ValueId op(const char* name, ValueId a, ValueId b) { return g.apply1(name, {a, b}); }
  std::optional<PaddingFault> fault(const Plan& plan, size_t group = 0) const {
    return padding_fault(plan, plan.groups[group], {g, parameter, gradient, step});
  }

  ValueId parameter = input("all"), gradient = input("gradient"), step = input("step"),
          state = input("all.m"), rate = input("learning_rate"), factor = input("schedule_factor");
};

}  // namespace

TEST_CASE("a rule that adds the rate is refused where a shard is padded, and only there") {
  Rule r;
  r.update(r.parameter, r.op("add", r.parameter, r.rate));
  Plan plan = plan_of(2, 3);
  const auto fault = r.fault(plan);
  REQUIRE(fault);
  CHECK(fault->parameter == &plan.parameters[0]);
  CHECK(fault->step == 1);
  CHECK(fault->value == 1);  // a rate of 0 is taken for 1
  plan.groups[0].learning_rate = 0.25;
  CHECK(r.fault(plan)->value == 0.25);
  CHECK_FALSE(r.fault(plan, 1));        // another group
  CHECK_FALSE(r.fault(plan_of(3, 3)));  // even shards
  CHECK_FALSE(r.fault(plan_of(1, 3)));  // one rank
  plan.parameters[0].group = -1;        // frozen
  CHECK_FALSE(r.fault(plan));
  plan = plan_of(2, 3);
  plan.parameters[0].sharded = false;
  CHECK_FALSE(r.fault(plan));
}

TEST_CASE("a state with an initial value that reaches the parameter is refused") {
  Rule r;
  r.update(r.parameter, r.op("add", r.parameter, r.state));
  Plan plan = plan_of(2, 3);
  plan.groups[0].states.push_back({"m", 0, {}});
  CHECK_FALSE(r.fault(plan));
  plan.groups[0].states[0].initial = 0.5;
  REQUIRE(r.fault(plan));
  CHECK(r.fault(plan)->value == 0.5);
}

TEST_CASE("states go from step to step, and the schedule's factor falls at the end") {
  Rule later;  // m = rate after step 1
  later.update(later.parameter, later.op("add", later.parameter, later.state));
  later.update(later.state, later.rate);
  Plan plan = plan_of(2, 3);
  plan.groups[0].states.push_back({"m", 0, {}});
  REQUIRE(later.fault(plan));
  CHECK(later.fault(plan)->step == 2);

  Rule end;
  end.update(end.parameter, end.op("sub", end.factor, end.g.constant(1)));
  REQUIRE(end.fault(plan));
  CHECK(end.fault(plan)->step == 91);
}

TEST_CASE("a rule that uses the gradient alone is accepted") {
  Rule r;
  r.update(r.parameter, r.op("sub", r.parameter, r.op("mul", r.rate, r.gradient)));
  CHECK_FALSE(r.fault(plan_of(2, 3)));
}

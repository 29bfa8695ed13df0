// An entry point that is none of the engine's: one function writes it, and memory, reports and
// verification follow from the table.
#include "engine/plan/entry_points.hpp"

#include <doctest/doctest.h>
#include <plait/comm.h>

#include <type_traits>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/describe.hpp"
#include "engine/plan/job_calls.hpp"
#include "engine/plan/print_programs.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/plan/totals.hpp"
#include "engine/plan/verify_job.hpp"
#include "engine/plan/verify_program.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;
using namespace plait::plan;

static_assert(std::is_same_v<decltype(make_plan(std::declval<const config::Experiment&>(),
                                                std::declval<const PlanContext&>(),
                                                std::declval<config::Problems&>())),
                             std::unique_ptr<const Plan>>);
static_assert(!std::is_assignable_v<decltype((std::declval<const Plan&>().rank)), int32_t>);
static_assert(std::is_const_v<
              std::remove_reference_t<decltype(*std::declval<const Plan&>().programs[0].graph)>>);

const char* const kExperiment = R"([run]
steps = 4
device = "reference"
[batch]
global = 8
[data.train]
type = "synthetic"
samples = 16
shape = [6]
classes = 4
[model]
layers = [{type = "linear", out = 12}, {type = "relu"}, {type = "linear", out = 4}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
)";

// As many results as show in the figures of memory.
constexpr int64_t kResults = 1024;

// The squares of the first parameters; sums: over the replicas.
EntryPoint squares_of(const EntryPointSource& from, bool sums) {
  PlanDraft& plan = from.plan;
  auto graph = std::make_unique<program::Graph>(plan.ops.get(), plan.precision.scalar);
  graph->scope = "squares";
  const FlatBuffer& parameters = plan.groups[0].parameters;
  const program::ValueId v = flat(*graph, "parameters", parameters, 0, 16);
  const program::ValueId squares = program::binary(*graph, "mul", v, v);
  FlatBuffer results = plan.storage.add_flat("squares", Category::kResults, PLAIT_F32);
  plan.storage.append(results, kResults);
  const program::ValueId sum =
      sums ? sum_over(*graph, plan, topology::Axis::kData, "squares of parameters", squares)
           : squares;
  graph->assign(flat(*graph, "squares", results, 0, 16), sum);
  EntryPoint entry{"squares", "a sum of squares", {}};
  entry.launches = {{plan.add(compile("squares", std::move(graph), plan)), 0, -1, -1}};
  return entry;
}

EntryPoint write_squares(const EntryPointSource& from) { return squares_of(from, true); }

// A rank without the call that the others make.
EntryPoint write_uneven(const EntryPointSource& from) {
  return squares_of(from, from.plan.rank > 0);
}

// Starts a collective and does not wait.
EntryPoint write_unfinished(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  auto graph = std::make_unique<program::Graph>(plan.ops.get(), plan.precision.scalar);
  graph->scope = "unfinished";
  const int32_t id =
      add_collective(plan, "unfinished", topology::Axis::kData, PLAIT_COMM_ALL_REDUCE);
  start_all_reduce(*graph, plan, id, {flat(*graph, "results", plan.results, 0, 2)});
  EntryPoint entry{"unfinished", "a start without an end", {}};
  entry.launches = {{plan.add(compile("unfinished", std::move(graph), plan)), 0, -1, -1}};
  return entry;
}

std::unique_ptr<const Plan> plan_with(const WriteEntryPoint& write,
                                      const std::vector<std::string>& keys = {}, int32_t rank = 0) {
  static const auto kPlugins =
      test::load_plugins({"device-reference", "layer-dense", "layer-activation", "layer-loss",
                          "data-synthetic", "optimizer-adamw"});
  return test::plan_of(kExperiment, keys, test::context_of(kPlugins, rank), write);
}

std::string names_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const EntryPoint& e : plan.entry_points) {
    names.push_back(e.name + ":");
    for (const int32_t p : e.programs())
      names.push_back(plan.programs[static_cast<size_t>(p)].name);
  }
  return join(names, " ");
}

}  // namespace

TEST_CASE("entry points: every plan has the same, by what its grid needs") {
  CHECK(names_of(*plan_with({})) ==
        "train_step: forward_backward update evaluate: evaluate predict: evaluate");
  CHECK(names_of(*plan_with({}, {"topology.data=2", "batch.accumulation=2"})) ==
        "train_step: zero_grad forward_backward forward_backward_reduce update "
        "evaluate: evaluate predict: evaluate reduce_metrics: reduce_metrics");
  CHECK(names_of(*plan_with({}, {"topology.pipeline=2"}, 1)) ==
        "train_step: zero_grad forward of stage 1 backward of stage 1 update "
        "evaluate: evaluate of stage 1 predict: evaluate of stage 1 broadcast_outputs "
        "reduce_metrics: reduce_metrics");
}

TEST_CASE("entry points: one that is added shows in reports and in memory") {
  const auto without = plan_with({}), with = plan_with(write_squares);
  const EntryPoint& entry = with->entry_point("squares");
  CHECK(without->find_entry_point("squares") == nullptr);
  CHECK(entry.feed.batch == 0);
  const std::string json = describe(*with);
  CHECK(json.find(R"({"name": "squares", "samples": 0, "fields": [], "programs": ["squares"])") !=
        std::string::npos);
  CHECK(json.find(R"({"name": "train_step", "samples": 8, "fields": ["x", "label"])") !=
        std::string::npos);
  const std::string ir = print_programs(*with, "");
  CHECK(ir.find("\n# entry point squares: squares\n") != std::string::npos);
  CHECK(ir.find("\nprogram \"squares\"") != std::string::npos);
  CHECK(print_programs(*without, "").find("entry point squares") == std::string::npos);
  const auto results = static_cast<size_t>(Category::kResults);
  const MemoryUse before = memory_of(*without), after = memory_of(*with);
  CHECK(after.of_category[results] == before.of_category[results] + kResults * sizeof(float));
  CHECK(after.arena >= before.arena + kResults * sizeof(float));
  const Totals totals = totals_of(*with, entry);
  CHECK(totals.flops > 0);
  CHECK(totals.flops == with->program("squares")->flops);
  CHECK(totals_of(*with, with->entry_point(kTrainStep)) ==
        totals_of(*without, without->entry_point(kTrainStep)));
}

TEST_CASE("entry points: one that is added runs") {
  const std::shared_ptr<const Plan> plan = plan_with(write_squares);
  runtime::Executor executor(plan);
  std::vector<float> values(16), found(16);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  executor.write(plan->groups[0].parameters.at(0), values.data(), values.size() * sizeof(float));
  for (const auto& group : executor.launches(plan->entry_point("squares"))) executor.launch(group);
  const auto& segments = plan->storage.segments();
  const auto at = std::find_if(segments.begin(), segments.end(),
                               [](const Segment& s) { return s.name == "squares"; });
  executor.read({static_cast<int32_t>(at - segments.begin()), 0}, found.data(),
                found.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) CHECK(found[i] == values[i] * values[i]);
}

TEST_CASE("entry points: one that is added is verified, on a rank and between ranks") {
  const std::vector<std::string> keys{"topology.data=2"};
  const auto verdict = [&](const WriteEntryPoint& write) {
    const auto a = plan_with(write, keys, 0), b = plan_with(write, keys, 1);
    const RankCalls of_a = calls_of(*a), of_b = calls_of(*b);
    return verify_job(a->grid, {&of_a, &of_b});
  };
  const auto even = verdict(write_squares);
  CHECK(even.fault == "");
  CHECK(even.collectives == verdict({}).collectives);  // of a step
  const std::string fault = verdict(write_uneven).fault;
  CHECK_MESSAGE(fault.find("'squares' of a sum of squares") != std::string::npos, fault);
  const auto build = [&] { verify_launches(*plan_with(write_unfinished, keys)); };
  CHECK_THROWS_WITH_AS(build(), doctest::Contains("launching a start without an end"), Error);
}

TEST_CASE("entry points: what lies outside of its segment is found") {
  // Of two operands and a result, each of 16 elements, the one at `wrong` lies `bytes` too far.
  const auto fault = [](size_t wrong, uint64_t bytes) {
    const WriteEntryPoint write = [&](const EntryPointSource& from) {
      PlanDraft& plan = from.plan;
      auto graph = std::make_unique<program::Graph>(plan.ops.get(), plan.precision.scalar);
      graph->scope = "too far";
      std::vector<program::ValueId> v;
      for (size_t i = 0; i < 3; ++i) {
        FlatBuffer own = plan.storage.add_flat("own", Category::kResults, PLAIT_F32);
        BufferRef at = plan.storage.append(own, 16);
        at.offset += i == wrong ? bytes : 0;
        v.push_back(
            graph->persistent("v" + std::to_string(i), program::make_shape(PLAIT_F32, {16}), at));
      }
      graph->assign(v[2], program::binary(*graph, "add", v[0], v[1]));
      EntryPoint entry{"far", "a sum", {}};
      entry.launches = {{plan.add(compile("far", std::move(graph), plan)), 0, -1, -1}};
      return entry;
    };
    try {
      plan_with(write);
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_INTERNAL);
      return e.text().substr(0, e.text().find(';'));
    }
    return std::string("none");
  };
  CHECK(fault(0, 0) == "none");
  for (size_t i = 0; i < 3; ++i)
    for (const uint64_t bytes : {4, 64, 68, 1 << 20}) {
      CAPTURE(i);
      CAPTURE(bytes);
      CHECK(fault(i, bytes) == strf("[plan] operand %zu of map in too far lies outside of its "
                                    "segment",
                                    i));
    }
}

TEST_CASE("entry points: a name is taken once") {
  const auto again = [](const EntryPointSource& from) {
    EntryPoint entry = write_squares(from);
    entry.name = kEvaluate;
    return entry;
  };
  CHECK_THROWS_WITH_AS(plan_with(again), "[plan] two entry points are named 'evaluate'", Error);
}

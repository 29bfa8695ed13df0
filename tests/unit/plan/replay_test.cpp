// Schedules replayed with measured times, against schedules computed by hand.
#include "engine/plan/replay.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/every_rank.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;
using namespace plait::plan;
using doctest::Approx;
using nlohmann::json;

const char* const kExperiment = R"([run]
steps = 4
device = "reference"
[batch]
global = 8
micro = 4
[data.train]
type = "synthetic"
samples = 48
shape = [8]
classes = 8
[model]
layers = [{type = "linear", name = "a", out = 8, bias = false},
          {type = "linear", name = "b", out = 8, bias = false},
          {type = "linear", name = "c", out = 8, bias = false},
          {type = "linear", name = "d", out = 8, bias = false}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
learning_rate = 0.01
)";

struct Setting {
  explicit Setting(const std::vector<std::string>& keys)
      : experiment(test::experiment_of(kExperiment, keys, context)) {}
  json replay(const std::string& profile) {
    const ReplayTexts made = plan::replay(experiment, context, profile, problems);
    problems.raise_if_any();
    CHECK(made.svg.empty() == (json::parse(made.json).at("pipeline") == 1));
    return json::parse(made.json);
  }
  static std::shared_ptr<plugin::Registry> plugins() {
    static const auto kPlugins = test::load_plugins(
        {"device-reference", "layer-dense", "layer-loss", "data-synthetic", "optimizer-sgd"});
    return kPlugins;
  }

  config::Problems problems;
  PlanContext context{plugins(), nullptr, {&FileSystem::posix(), "", "."}};
  config::Experiment experiment;
};

using SecondsOf = std::function<double(const MeasuredOp&)>;

void write_ops(JsonWriter& w, const Plan& plan, const SecondsOf& seconds) {
  w.field("rank", plan.rank).field("outside_seconds", 0.0).field("launches_of_a_run", 1);
  w.key("ops").array();
  for (const int32_t p : plan.entry_point(kTrainStep).programs()) {
    const Program& program = plan.programs[static_cast<size_t>(p)];
    for (const KernelCall& call : program.calls) {
      const MeasuredOp op = measured_op(plan, program, call);
      w.object().field("scope", op.scope).field("op", op.op).field("pass", op.pass);
      if (!op.collective.empty()) w.field("collective", op.collective);
      w.texts("inputs", op.inputs).texts("outputs", op.outputs);
      w.field("median_seconds", seconds(op)).end_object();
    }
  }
  w.end_array();
}

// A profile of all ranks in which each op takes what `seconds` says.
std::string profile_of(const std::vector<std::string>& keys, const SecondsOf& seconds,
                       double message_seconds = -1) {
  Setting s(keys);
  const int32_t n = ranks_wanted(s.experiment.topology);
  JsonWriter w;
  for (int32_t rank = 0; rank < n; ++rank) {
    const auto plan = plan_of_rank(s.experiment, s.context, rank, n, s.problems);
    s.problems.raise_if_any();
    w.object();
    if (rank == 0) {
      w.field("entry_point", "train_step").field("device", "reference").field("threads", 1);
      w.field("launches", "one by one").field("runs", 1).field("ranks", n).field("seconds", 20.0);
      w.key("layout").object().field("pipeline", plan->grid.pipeline()).field("data", 1);
      w.field("tensor", 1).field("zero", 0).field("sequence", false).field("schedule", "1f1b");
      w.field("micro_batch", plan->experiment.batch.micro).end_object().key("layers").array();
      for (const Layer& layer : plan->layers)
        w.object()
            .field("name", layer.name)
            .field("type", layer.type)
            .field("output", program::text(layer.output))
            .end_object();
      w.end_array();
      if (message_seconds >= 0) w.field("message_seconds", message_seconds);
    }
    write_ops(w, *plan, seconds);
    if (rank == 0 && n > 1) w.key("other_ranks").array();
    if (rank > 0 || n == 1) w.end_object();
  }
  if (n > 1) w.end_array().end_object();
  return w.text();
}

// Products take a second, all else nothing: a layer takes 1 s forward and 2 s backward, but the
// first one, whose inputs have no gradient, 1 s.
double products(const MeasuredOp& op) { return op.op == "matmul" ? 1 : 0; }

}  // namespace

TEST_CASE("replay: a step is what comes before the passes, the passes, and the update") {
  const auto schedule = topology::make_schedule(topology::ScheduleKind::k1F1B, {2, 1}, 2);
  // rank 0: F0 F1 . B0 B1   rank 1: F0 B0 F1 B1
  const StepPrediction p =
      predict_step(schedule, {{0.25, {1, 1, 2, 2}, 1}, {0.5, {1, 2, 1, 2}, 0.75}}, 0.5);
  CHECK(p.before == 0.5);
  CHECK(p.after == 1);
  CHECK(p.pipeline.total == 10);  // as in simulate_test.cpp
  CHECK(p.seconds == 11.5);
  CHECK(p.pipeline.idle_fraction == Approx(0.4));
  const StepPrediction alone = predict_step({}, {{1, {2, 3}, 4}}, 7);
  CHECK(alone.seconds == 10);
  CHECK(alone.pipeline.idle_fraction == 0);
}

TEST_CASE("replay: an op is looked up in its pass, then in any") {
  const MeasuredTimes times(profile_of({}, [](const MeasuredOp& op) -> double {
    return op.op != "matmul" ? 0 : op.pass == "backward" ? 3 : 2;
  }));
  const Setting s({});
  config::Problems problems;
  const auto plan = plan_of_rank(s.experiment, s.context, 0, 1, problems);
  MeasuredOp op;
  for (const int32_t p : plan->entry_point(kTrainStep).programs())
    for (const KernelCall& call : plan->programs[static_cast<size_t>(p)].calls)
      if (op.op != "matmul") op = measured_op(*plan, plan->programs[static_cast<size_t>(p)], call);
  REQUIRE(op.op == "matmul");
  REQUIRE(op.pass != "backward");
  CHECK(times.seconds_of(op) == 2);
  op.pass = "evaluate";
  CHECK(times.seconds_of(op) == 2);
  op.scope = "none";
  CHECK_FALSE(times.seconds_of(op));
}

// Of two ranks, which differ in what is given here.
std::string profile_of_two(const std::string& first, const std::string& second,
                           const std::string& seconds = "20.0", const std::string& threads = "1") {
  return R"({"entry_point": "train_step", "device": "reference", "launches": "one by one",
             "threads": )" +
         threads + R"(, "runs": 4, "ranks": 2, "seconds": )" + seconds +
         R"(, "layout": {"pipeline": 1, "data": 2, "tensor": 1, "zero": 0, "micro_batch": 4,
             "sequence": false}, "layers": [], )" +
         first + R"(, "other_ranks": [{)" + second + "}]}";
}

TEST_CASE("replay: kernels count with the mean of the ranks, collectives with the least") {
  const auto rank = [](const char* outside, const char* kernel, const char* collective) {
    return strf(R"json("outside_seconds": %s, "launches_of_a_run": 3, "ops": [
        {"scope": "a", "op": "matmul", "pass": "forward", "inputs": ["f32 (2)"], "outputs": [],
         "median_seconds": %s},
        {"scope": "a", "op": "all_reduce", "pass": "update", "collective": "sums", "inputs": [],
         "outputs": [], "median_seconds": %s}])json",
                outside, kernel, collective);
  };
  const MeasuredTimes times(profile_of_two(rank("6", "1", "3"), rank("18.0", "2.5", "4")));
  CHECK(times.ranks() == 2);
  CHECK(times.steps() == 4);
  CHECK(times.step_seconds() == 5);
  CHECK(times.launch_seconds() == 1);  // (6 + 18) / 2 ranks / 4 runs / 3 launches
  CHECK_FALSE(times.message_seconds());
  CHECK(times.seconds_of({"a", "matmul", "forward", "", {"f32 (2)"}, {}}) == 1.75);
  CHECK(times.seconds_of({"a", "all_reduce", "update", "sums", {}, {}}) == 3);
  CHECK_FALSE(times.seconds_of({"a", "all_reduce", "update", "others", {}, {}}));
  CHECK_FALSE(times.seconds_of({"a", "matmul", "forward", "", {}, {"f32 (2)"}}));
  const std::string alone = R"("outside_seconds": 2, "launches_of_a_run": 1, "ops": [])";
  std::string once = profile_of_two(alone, alone);
  once.replace(once.find("\"runs\": 4"), 9, "\"runs\": 1");
  CHECK(MeasuredTimes(once).launch_seconds() == 2);
}

TEST_CASE("replay: numbers that no profile has are refused") {
  const std::string rank = R"("outside_seconds": 0, "launches_of_a_run": 0, "ops": [])";
  const auto error = [&](const std::string& seconds, const std::string& threads) {
    try {
      const MeasuredTimes times(profile_of_two(rank, rank, seconds, threads));
      CHECK(times.launch_seconds() == 0);
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_DATA);
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(error("0", "1099511627776") == "none");  // 2^40
  CHECK(error("0", "1099511627777").find("has too large a number as `threads`") !=
        std::string::npos);
  CHECK(error("0", "\"1\"").find("has no `threads`") != std::string::npos);
  for (const char* seconds : {"-1", "-0.5", "\"1\"", "null"}) {
    CAPTURE(seconds);
    CHECK(error(seconds, "1").find("has no number of 0 or more as `seconds`") != std::string::npos);
  }
}

TEST_CASE("replay: one rank's times make the stages of a pipeline") {
  const std::string one = profile_of({}, products);
  const json alone = Setting({}).replay(one);
  CHECK(alone.at("step_seconds") == Approx(22));  // 2 micro-batches of 4 + 7
  CHECK(alone.at("not_measured").empty());
  CHECK(alone.at("alternatives").empty());
  const std::vector<double> layers{2, 3, 3, 3};
  for (size_t i = 0; i < layers.size(); ++i)
    CHECK(alone.at("layers")[i].at("seconds") == Approx(layers[i]));

  const json two = Setting({"topology.pipeline=2", "topology.schedule=gpipe"}).replay(one);
  CHECK(two.at("stages")[0].at("forward_seconds") == Approx(2));
  CHECK(two.at("stages")[0].at("backward_seconds") == Approx(3));
  CHECK(two.at("stages")[1].at("forward_seconds") == Approx(2));
  CHECK(two.at("stages")[1].at("backward_seconds") == Approx(4));
  CHECK(two.at("slowest_stage") == 1);
  CHECK(two.at("tensor") == 1);
  CHECK(two.at("micro_batches") == 2);
  CHECK(two.at("stages")[0].at("busy_share") ==
        Approx(2 * 5 / two.at("step_seconds").get<double>()));
  CHECK(two.at("stages")[1].at("layers") == json{"model.c", "model.d"});
  CHECK(two.at("doubts").size() == 1);  // messages
  // Rank 1: F0 2-4, F1 4-6, B0 6-10, B1 10-14. It sends the gradient of c's input at the earliest
  // after three products of B1, at 13, and rank 0 then takes 3.
  const double step = two.at("step_seconds");
  CHECK(step >= 16);
  CHECK(step <= 17);
  CHECK(two.at("passes_seconds") == Approx(step));
  CHECK(two.at("idle_share") == Approx(1 - (2 * 5 + 2 * 6) / (2 * step)));
}

TEST_CASE("replay: the slowest stage is that of the longest passes, forward ones among them") {
  const SecondsOf first = [](const MeasuredOp& op) {
    if (op.op != "matmul") return 0.0;
    return op.scope == "model.a" && op.pass != "backward" ? 2.5 : 1.0;
  };
  const json two =
      Setting({"topology.pipeline=2", "topology.schedule=gpipe"}).replay(profile_of({}, first));
  CHECK(two.at("stages")[0].at("forward_seconds") == Approx(3.5));
  CHECK(two.at("stages")[0].at("backward_seconds") == Approx(3));
  CHECK(two.at("stages")[1].at("forward_seconds") == Approx(2));
  CHECK(two.at("stages")[1].at("backward_seconds") == Approx(4));
  CHECK(two.at("slowest_stage") == 0);
}

TEST_CASE("replay: an alternative has the same update") {
  const SecondsOf seconds = [](const MeasuredOp& op) {
    return op.op == "matmul" ? 1.0 : op.pass == "update" ? 0.125 : 0.0;
  };
  const std::vector<std::string> pipeline{"topology.pipeline=2", "topology.schedule=gpipe"};
  const json two = Setting(pipeline).replay(profile_of(pipeline, seconds, 0));
  const double around =
      two.at("before_seconds").get<double>() + two.at("after_seconds").get<double>();
  CHECK(two.at("after_seconds") > 0);
  CHECK(two.at("step_seconds") == Approx(two.at("passes_seconds").get<double>() + around));
  CHECK(two.at("alternatives").size() == 2);
  for (const json& one : two.at("alternatives"))
    CHECK(one.at("step_seconds") == Approx(one.at("passes_seconds").get<double>() + around));
}

TEST_CASE("replay: losses that count different weights are counted before the passes") {
  const std::vector<std::string> two{
      "loss=[{type=\"cross_entropy\"}, {type=\"mse\", from=[\"output\", \"x\"]}]"};
  const std::string profile =
      profile_of(two, [](const MeasuredOp& op) { return op.pass == "count_weights" ? 1 : 0; });
  const json r = Setting(two).replay(profile);
  CHECK(r.at("before_seconds").get<double>() > 0);
  CHECK(r.at("passes_seconds") == 0);
  for (const json& layer : r.at("layers")) CHECK(layer.at("seconds") == 0);
}

TEST_CASE("replay: messages, other schedules and other splits") {
  const std::vector<std::string> pipeline{"topology.pipeline=2", "topology.schedule=gpipe"};
  const std::string profile = profile_of(pipeline, products, 0.5);
  const json two = Setting(pipeline).replay(profile);
  const json free = Setting(pipeline).replay(profile_of(pipeline, products, 0));
  // The first activations and the last gradients come half a second later.
  CHECK(two.at("step_seconds") == Approx(free.at("step_seconds").get<double>() + 1));
  CHECK(two.at("profile").at("message_seconds") == 0.5);
  CHECK(two.at("doubts").empty());
  std::vector<std::string> names;
  for (const json& one : two.at("alternatives")) names.push_back(one.at("change"));
  CHECK(names ==
        std::vector<std::string>{"topology.schedule=1f1b", "topology.schedule=zero_bubble"});
  for (const json& one : two.at("alternatives")) {  // what is predicted is what the change gives
    std::vector<std::string> keys = pipeline;
    keys.push_back(one.at("change"));
    CHECK(Setting(keys).replay(profile).at("step_seconds") == one.at("step_seconds"));
  }

  // d takes ten times as long: alone in a stage it is still the slowest.
  const SecondsOf slow = [](const MeasuredOp& op) {
    return op.op == "matmul" ? op.scope == "model.d" ? 10 : 1 : 0;
  };
  const json uneven = Setting(pipeline).replay(profile_of(pipeline, slow, 0));
  const json last = uneven.at("alternatives").back();
  CHECK(last.at("change") == "topology.stages=[3,1]");
  CHECK(last.at("step_seconds").get<double>() < uneven.at("step_seconds").get<double>());
}

TEST_CASE("replay: what the profile does not have is told") {
  const std::string one = profile_of({}, products);
  std::string other = one;
  for (size_t at = 0; (at = other.find("\"matmul\"", at)) != std::string::npos;)
    other.replace(at, 8, "\"conv\"");
  const json r = Setting({}).replay(other);
  CHECK(r.at("step_seconds") == 0);
  CHECK(r.at("measured_flops_share").get<double>() < 0.5);
  CHECK(r.at("not_measured")[0].at("op") == "matmul of model.a");
  CHECK(r.at("not_measured")[0].at("calls") == 4);  // two passes of two micro-batches
}

TEST_CASE("replay: profiles of something else are refused") {
  const std::string one = profile_of({}, products);
  const auto error = [](const std::vector<std::string>& keys, const std::string& profile) {
    try {
      Setting(keys).replay(profile);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(error({"model.layers[1].out=16"}, one) ==
        "[profile] the output of layer 'model.b' is another one: the profile has f32 (4, 8), this "
        "plan f32 (4, 16); measure the model of this plan");
  CHECK(
      error({"batch.micro=2"}, one) ==
      "[profile] micro-batches have other numbers of samples: the profile has 4, this plan 2; use "
      "batch.micro=4, or measure with batch.micro=2");
  CHECK(error({"model.layers[1].name=\"e\""}, one)
            .find("layer 1 is another one: the profile has "
                  "'model.b' (linear), this plan 'model.e'") != std::string::npos);
  CHECK(error({"model.layers[0].out=16"}, one).find("the output of layer 'model.a' is another") !=
        std::string::npos);
  CHECK(error({"model.layers=[{type=\"linear\", name=\"a\", out=8, bias=false}]"}, one) ==
        "[profile] the numbers of layers differ: the profile has 4, this plan 1; measure the model "
        "of this plan");
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string all = one;
    REQUIRE(all.find(from) != std::string::npos);
    return all.replace(all.find(from), from.size(), to);
  };
  CHECK(error({}, edited(R"("device": "reference")", R"("device": "cuda")")) ==
        "[profile] the devices differ: the profile has 'cuda', this plan 'reference'; use "
        "run.device=cuda, or measure with run.device=reference");
  CHECK(error({}, edited(R"("tensor": 1)", R"("tensor": 2)")) ==
        "[profile] layers are divided among other numbers of ranks: the profile has 2, this plan "
        "1; use topology.tensor=2, or measure with topology.tensor=1");
  CHECK(error({}, edited(R"("sequence": false)", R"("sequence": true)"))
            .find("rows are divided in another way: the profile has topology.sequence, this plan "
                  "does not; give both") != std::string::npos);
  CHECK(error({}, "nothing").find("[profile] the profile is not JSON") == 0);
  CHECK(error({}, "{}").find("[profile] the profile has no `entry_point`") == 0);
  std::string cut = one;
  cut.replace(cut.find("\"ranks\": 1"), 10, "\"ranks\": 2");
  CHECK(error({}, cut).find("[profile] the profile has 1 ranks of 2") == 0);
}

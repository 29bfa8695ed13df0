// plait.hpp against the real library and its plugins.
#include <doctest/doctest.h>
#include <plait/plait.hpp>
#include <plait/plugin.hpp>  // both may be included in one file

#include <cstdlib>
#include <string>
#include <vector>

namespace {

const std::string kToml = R"(
[run]
steps = 5
[batch]
global = 4
[data.train]
type = "synthetic"
samples = 16
shape = [3]
classes = 2
[model]
layers = [{type = "linear", out = 2}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
learning_rate = 0.1
)";

struct Made {
  plait::Engine engine;
  plait::Experiment experiment = plait::Experiment::parse(engine, kToml, "test.toml");
  plait::Plan plan{experiment};
};

plait::SessionSettings no_files() {
  plait::SessionSettings settings;
  settings.no_files = true;
  return settings;
}

}  // namespace

TEST_CASE("a session steps, evaluates, reads and writes") {
  Made made;
  plait::Session session(made.plan, no_files());
  CHECK(session.step().step == 1);
  std::vector<float> bias = {1, 2}, back(2);
  session.write("model.linear1.bias", std::span<const float>(bias));
  session.read("model.linear1.bias", std::span<float>(back));
  CHECK(back == bias);
  CHECK(session.evaluate("train").find("\"loss\"") != std::string::npos);
  CHECK(session.run().step == 5);
}

TEST_CASE("feeds and predictions go through spans") {
  Made made;
  plait::Session session(made.plan, no_files());
  const std::vector<float> x(12, 0.5f);
  const std::vector<int32_t> label(4, 1);
  const plait::Feed feeds[] = {{"x", std::span(x), {4, 3}}, {"label", std::span(label), {4}}};
  const double before = session.step(feeds).loss;
  CHECK(session.step(feeds).loss < before);
  std::vector<float> logits(8);
  session.predict(std::span(feeds, 1), "output", std::span(logits));
  CHECK(logits[0] == logits[2]);  // the samples are all the same
  CHECK_THROWS_AS(plait::Feed("x", std::span(x), {5, 3}), plait::HostError);
}

TEST_CASE("the picture of a pipeline's schedule, and the error if there is none") {
  Made made;
  try {
    made.plan.picture();
    FAIL("a plan without a pipeline has a picture");
  } catch (const plait::HostError& e) {
    CHECK(e.code() == PLAIT_ERR_STATE);
    CHECK(std::string(e.what()).find("set topology.pipeline") != std::string::npos);
  }
  std::string toml = kToml + "[topology]\npipeline = 2\n";
  const std::string one = "{type = \"linear\", out = 2}";
  toml.insert(toml.find(one), one + ", ");
  const auto experiment = plait::Experiment::parse(made.engine, toml, "test.toml");
  const plait::Job job(plait::JobSettings{.rank = 1, .size = 2});
  const std::string svg = plait::Plan(experiment, job).picture();
  CHECK(svg.find("<svg ") == 0);
  CHECK(svg.find(">1f1b, 2 ranks, 1 micro-batch<") != std::string::npos);
  CHECK(svg.find("FLOP<") != std::string::npos);
}

TEST_CASE("a view outlives its session") {
  Made made;
  auto session = std::make_unique<plait::Session>(made.plan, no_files());
  const plait::ParameterView view = session->view("model.linear1.weight");
  REQUIRE(view.shape().size() == 2);
  CHECK(view.shape()[0] == 2);
  CHECK(view.shape()[1] == 3);
  std::vector<float> weight(6);
  session->read("model.linear1.weight", std::span(weight));
  session.reset();
  CHECK(static_cast<const float*>(view.data())[5] == weight[5]);
}

TEST_CASE("errors carry code, place and nearest name") {
  plait::Engine engine;
  try {
    plait::Experiment::parse(engine, kToml, "test.toml", {"optimizer.learning_rat=1"});
    FAIL("accepted an unknown key");
  } catch (const plait::HostError& e) {
    CHECK(e.code() == PLAIT_ERR_CONFIG);
    CHECK(std::string(e.what()).find("'learning_rate'") != std::string::npos);
  }
  CHECK_THROWS_AS(plait::inspect_plugin("/nowhere.so"), plait::HostError);
}

TEST_CASE("a callback stops a run, and run() rethrows its exception") {
  Made made;
  plait::SessionSettings settings = no_files();
  settings.on_step = [](const plait_step_result& r) { return r.step == 2; };
  plait::Session stopped(made.plan, settings);
  try {
    stopped.run();
    FAIL("was not stopped");
  } catch (const plait::HostError& e) {
    CHECK(e.code() == PLAIT_ERR_CANCELLED);
  }
  settings.on_step = [](const plait_step_result&) -> bool { throw std::logic_error("mine"); };
  plait::Session thrown(made.plan, settings);
  CHECK_THROWS_AS(thrown.run(), std::logic_error);
}

TEST_CASE("the log goes to the sink, and a sink that throws has no effect") {
  std::vector<std::string> lines;
  plait::EngineSettings settings;
  settings.log_level = PLAIT_LOG_DEBUG;
  settings.log = [&](uint32_t, std::string_view text) {
    lines.emplace_back(text);
    throw std::runtime_error("a bad sink");
  };
  const plait::Engine engine(settings);
  plait::Session session(plait::Plan(plait::Experiment::parse(engine, kToml, "test.toml")),
                         no_files());
  session.run();
  CHECK(engine.describe().find("\"linear\"") != std::string::npos);
}

TEST_CASE("a job describes itself, and a plan is one rank's") {
  plait::JobSettings settings;
  settings.rank = 1;
  settings.size = 2;
  const plait::Job job(settings);
  CHECK(job.describe().find("\"rank\": 1, \"size\": 2, \"local_rank\": 1, \"local_size\": 2") !=
        std::string::npos);
  CHECK(job.describe().find("\"source\": \"host\"") != std::string::npos);
  plait::Engine engine;
  const auto two = plait::Experiment::parse(engine, kToml, "test.toml", {"topology.data=2"});
  CHECK(plait::Plan(two, job).describe().find("\"parameter_count\": 8") != std::string::npos);
  const auto one = plait::Experiment::parse(engine, kToml, "test.toml");
  CHECK_THROWS_AS(plait::Plan(one, job), plait::HostError);  // a job of two for one rank

  settings.rendezvous = "127.0.0.1:1";
  settings.secret = "a secret of some length";
  CHECK(plait::Job(settings).describe().find("a secret") == std::string::npos);
  const auto refused = [](const plait::JobSettings& bad) {
    try {
      const plait::Job made(bad);
    } catch (const plait::HostError& e) {
      CHECK(e.code() == PLAIT_ERR_INVALID);
      return std::string(e.what());
    }
    return std::string();
  };
  settings.secret = "short";
  CHECK(refused(settings).find("the secret has 5 bytes") != std::string::npos);
  settings.rank = 2;
  CHECK(refused(settings) == "[job] rank is 2, expected 0 to 1");
  settings.rank = UINT32_MAX;
  CHECK(refused(settings).find("plait_job_options.rank is 4294967295") != std::string::npos);
  CHECK(plait::Job::from_environment().describe().find("\"source\"") != std::string::npos);
}

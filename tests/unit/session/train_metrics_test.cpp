// Metrics and single losses of training steps, against an evaluation of the same samples with the
// same weights.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/session/metric_sums.hpp"
#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;
using Json = nlohmann::json;

// An epoch of 60 samples in 8 steps, the last one padded, without a change of the weights.
std::vector<std::string> keys(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {
      "data.eval={type=\"synthetic\", samples=60, shape=[6], classes=4}",
      "run.steps=8",
      "run.log_every=8",
      "model.layers[2].p=0",
      "optimizer.learning_rate=1e-30",
      "metrics=[{type=\"accuracy\"}, {type=\"accuracy\", name=\"evaluated\", train=false}, "
      "{type=\"top_k\", k=2}]"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<Json> lines_of(const std::string& run_dir) {
  std::ifstream file(run_dir + "/metrics.ndjson");
  std::vector<Json> found;
  for (std::string line; std::getline(file, line);) found.push_back(Json::parse(line));
  return found;
}

struct Lines {
  Json step, evaluation;  // the last of each
  std::string events;     // the event file
};
Lines run(const std::vector<std::string>& experiment, int ranks = 1) {
  const Folder folder;
  const auto outcomes = run_all(experiment, ranks, folder / "run",
                                [](int) -> FileSystem& { return FileSystem::posix(); });
  for (const Outcome& o : outcomes) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  Lines found;
  for (const Json& line : lines_of(folder / "run")) {
    if (!line.contains("event")) found.step = line;
    if (line.value("event", "") == "evaluate") found.evaluation = line;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run"))
    if (entry.path().filename().string().starts_with("events."))
      found.events = FileSystem::posix().read_all(entry.path(), 1 << 24);
  return found;
}

void check_equal(const Lines& lines) {
  CHECK(lines.step["mean_loss"].get<double>() > 0.5);
  const double accuracy = lines.evaluation["accuracy"];
  CHECK(accuracy > 0);
  CHECK(accuracy < 1);
  for (const char* name : {"accuracy", "top_k"})
    CHECK(lines.step[name].get<double>() ==
          doctest::Approx(lines.evaluation[name].get<double>()).epsilon(1e-6));
  CHECK_FALSE(lines.step.contains("evaluated"));
  CHECK(lines.evaluation["evaluated"] == lines.evaluation["accuracy"]);
}

// The whole run, whose lines of steps these are.
std::vector<Json> steps_of(const std::vector<std::string>& experiment) {
  const Folder folder;
  const auto outcomes = run_all(experiment, 1, folder / "run",
                                [](int) -> FileSystem& { return FileSystem::posix(); });
  for (const Outcome& o : outcomes) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
  std::vector<Json> found;
  for (const Json& line : lines_of(folder / "run"))
    if (!line.contains("event")) found.push_back(line);
  return found;
}

// A csv of 60 samples, and of every `one_in`-th a label, or of none.
std::string labelled_data(const Folder& folder, int one_in) {
  const std::string path = folder / "data.csv";
  std::ofstream csv(path);
  csv << "a,b,c,d,label\n";
  for (int s = 0; s < 60; ++s) {
    const bool labelled = one_in > 0 && s % one_in == 0;
    csv << s % 7 << "," << s % 5 << "," << s % 3 << ",1," << (labelled ? s % 3 : -1) << "\n";
  }
  return "={type=\"csv\", path=\"" + path + "\", target=[\"label\"], target_type=\"i32\"}";
}

}  // namespace

TEST_CASE("a line of metrics has those of the training steps since the last one") {
  check_equal(run(keys()));
}

TEST_CASE("metrics of training are the same on every layout") {
  for (const auto& [ranks, more] : std::vector<std::pair<int, std::vector<std::string>>>{
           {1, {"batch.micro=2"}},
           {2, {"topology.data=2"}},
           {2, {"topology.data=2", "batch.micro=2"}},
           {2, {"topology.data=2", "topology.zero=3", "batch.micro=1"}},
           {2, {"topology.tensor=2"}},
           {2, {"topology.pipeline=2", "batch.micro=2"}},
           {4, {"topology.pipeline=2", "topology.data=2", "batch.micro=1"}}}) {
    CAPTURE(more);
    check_equal(run(keys(more), ranks));
  }
}

TEST_CASE("each of several losses has a figure, before its weight") {
  for (const int ranks : {1, 2}) {
    const Lines lines =
        run(keys({"loss=[{type=\"cross_entropy\", name=\"a\"}, "
                  "{type=\"cross_entropy\", name=\"b\", label_smoothing=0.2, weight=0.5}]",
                  "topology.data=" + std::to_string(ranks)}),
            ranks);
    const auto sum = [](const Json& of) {
      return of["loss.a"].get<double>() + 0.5 * of["loss.b"].get<double>();
    };
    CHECK(lines.evaluation["loss"].get<double>() == doctest::Approx(sum(lines.evaluation)));
    for (const char* name : {"loss.a", "loss.b"})
      CHECK(lines.step[name].get<double>() ==
            doctest::Approx(lines.evaluation[name].get<double>()).epsilon(1e-5));
    CHECK(lines.evaluation["loss.a"] != lines.evaluation["loss.b"]);
  }
  CHECK_FALSE(run(keys()).step.contains("loss.cross_entropy"));
}

TEST_CASE("each of several losses is divided by the weights that it counts itself") {
  const Folder folder;
  const std::string data = labelled_data(folder, 4);
  const auto experiment = [&](const std::string& losses, const std::vector<std::string>& more) {
    std::vector<std::string> all =
        keys({"data.train" + data, "data.eval" + data, "loss=" + losses});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::string labels = "{type=\"cross_entropy\", name=\"labels\"}",
                    values = "{type=\"mse\", name=\"values\", from=[\"output\", \"input\"]";
  const Json labels_alone = run(experiment("[" + labels + "]", {})).evaluation,
             values_alone = run(experiment("[" + values + "}]", {})).evaluation;
  for (const auto& [ranks, more] : std::vector<std::pair<int, std::vector<std::string>>>{
           {1, {}},
           {1, {"batch.micro=1"}},
           {2, {"topology.data=2", "topology.zero=3"}},
           {2, {"topology.tensor=2"}},
           {4, {"topology.pipeline=2", "topology.data=2", "batch.micro=1"}}}) {
    CAPTURE(more);
    const Lines lines =
        run(experiment("[" + labels + ", " + values + ", weight=0.5}]", more), ranks);
    const double a = labels_alone["loss"], b = values_alone["loss"];
    CHECK(lines.evaluation["loss.labels"].get<double>() == doctest::Approx(a).epsilon(1e-6));
    CHECK(lines.evaluation["loss.values"].get<double>() == doctest::Approx(b).epsilon(1e-6));
    CHECK(lines.evaluation["loss"].get<double>() == doctest::Approx(a + 0.5 * b).epsilon(1e-6));
    for (const char* name : {"loss.labels", "loss.values"})
      CHECK(lines.step[name].get<double>() ==
            doctest::Approx(lines.evaluation[name].get<double>()).epsilon(1e-5));
  }
}

TEST_CASE("a term of adapters that samples choose is a mean over the samples of all adapters") {
  const Folder folder;
  {
    std::ofstream csv(folder / "data.csv");
    csv << "a,b,c,label,adapter\n";
    for (int s = 0; s < 64; ++s)
      csv << s % 7 << "," << s % 5 << "," << s % 3 << "," << s % 3 << "," << (s % 4 == 0) << "\n";
  }
  const std::string data = "={type=\"csv\", path=\"" + folder / "data.csv" +
                           "\", integers=[\"adapter\"], target=[\"label\"], target_type=\"i32\"}",
                    adapter = "type=\"adalora\", match=[\"*.weight\"], orth_reg_weight=0.5";
  const Lines lines = run(
      keys({"metrics=[]", "data.train" + data, "data.eval" + data, "model.adapter_field=adapter",
            "model.adapters=[{name=\"a\", " + adapter + ", init_rank=3, target_rank=2}, " +
                "{name=\"b\", " + adapter + ", init_rank=2, target_rank=1}]"}));
  const auto figure = [&](const char* name) { return lines.step[name].get<double>(); };
  const double a = figure("orthogonality.a"), b = figure("orthogonality.b");
  CHECK(a > b);
  CHECK(b > 0);
  CHECK(figure("mean_loss") ==
        doctest::Approx(lines.evaluation["loss"].get<double>() + 0.5 * (48 * a + 16 * b) / 64)
            .epsilon(1e-6));
}

TEST_CASE("a loss that counts nothing has no figure, and adds nothing to the sum") {
  const Folder folder;
  const std::string data = labelled_data(folder, 0);
  const std::string labels = "{type=\"cross_entropy\", name=\"labels\"}",
                    values = "{type=\"mse\", name=\"values\", from=[\"output\", \"input\"]}";
  const Lines lines =
      run(keys({"data.train" + data, "data.eval" + data, "loss=[" + labels + ", " + values + "]"}));
  for (const Json& line : {lines.step, lines.evaluation}) {
    CAPTURE(line.dump());
    CHECK_FALSE(line.contains("loss.labels"));
    CHECK(line["loss"].is_number());
    CHECK(line["loss.values"].is_number());
  }
  CHECK(lines.evaluation["loss"] == lines.evaluation["loss.values"]);
  CHECK(lines.events.find("train/loss/values") != std::string::npos);
  CHECK(lines.events.find("eval/loss/values") != std::string::npos);
  CHECK(lines.events.find("loss/labels") == std::string::npos);
}

TEST_CASE("a step that is not finite does not count in its metrics") {
  Log log{[](uint32_t, std::string_view) {}};
  const auto plan = make_plan(keys(), FileSystem::posix(), 0, 1, log);
  REQUIRE(plan->train_metrics.size() == 2);
  session::MetricSums sums(*plan);
  session::HostBuffer results(plan->results);
  const auto step = [&](double correct, double of) {
    results.set(plan->train_metrics[0].state, correct);
    program::BufferRef second = plan->train_metrics[0].state;
    second.offset += program::dtype_bytes(plan->results.dtype);
    results.set(second, of);
  };
  step(NAN, 8);
  sums.add(results, true, false);
  CHECK(std::isnan(sums.values()[0].value));
  step(2, 8);
  sums.add(results, false, true);
  step(6, 8);
  sums.add(results, false, true);
  CHECK(sums.values()[0].value == 0.5);
  CHECK(sums.values()[0].name == std::string("accuracy"));
  step(8, 8);
  sums.add(results, true, true);
  CHECK(sums.values()[0].value == 1);
}

TEST_CASE("a line of metrics has the figures of its step") {
  const Folder folder;
  {
    std::ofstream csv(folder / "data.csv");
    csv << "a,b,c,d,label\n";
    for (int s = 0; s < 60; ++s)
      csv << "w" << s % 7 << ",w" << s % 5 << ",w" << s % 3 << ",w" << s % 2 << "," << s % 3
          << "\n";
  }
  const std::string data = "={type=\"csv\", path=\"" + folder / "data.csv" +
                           "\", categories=[\"*\"], encoding=\"id\", target=[\"label\"], "
                           "target_type=\"i32\"}";
  const auto outcomes =
      run_all(keys({"metrics=[]", "optimizer.learning_rate=0.01", "run.peak_tflops=0.001",
                    "data.train" + data, "data.eval" + data,
                    "model.layers=[{type=\"embedding\", vocabulary=7, width=8}, "
                    "{type=\"attention\", heads=2}, {type=\"flatten\"}, "
                    "{type=\"linear\", out=4}]"}),
              1, folder / "run", [](int) -> FileSystem& { return FileSystem::posix(); });
  REQUIRE_MESSAGE(outcomes[0].code == PLAIT_OK, outcomes[0].error);
  const session::StepResult& last = outcomes[0].last;
  Json line;
  for (const Json& one : lines_of(folder / "run"))
    if (!one.contains("event")) line = one;
  const auto is = [&](const char* key, double expected) {
    CAPTURE(key);
    CHECK(expected > 0);
    CHECK(std::abs(line.value(key, -1.0) - expected) <= 1e-6 * expected);
  };
  is("step", 8);
  is("samples", static_cast<double>(last.samples));
  is("loss", last.loss);
  is("lr", last.learning_rate);
  is("grad_norm", last.grad_norm);
  is("grad_norm_clipped", last.grad_norm_clipped);
  is("step_ms", last.seconds * 1e3);
  is("samples_per_s", last.samples_per_s);
  is("mean_loss", last.mean_loss);
  is("tflops", last.tflops);
  is("tflops_full", last.tflops_full);
  is("mfu", last.mfu);
  is("mfu_full", last.mfu_full);
  is("tokens", 60 * 4);
  is("tokens_per_s", last.tokens_per_s);
  CHECK(line["elapsed_s"].get<double>() > 0);
  CHECK(line["time"].get<double>() > 1.7e9);
}

TEST_CASE("the line of a skipped step says so, and is written though none is due") {
  const Folder folder;
  {
    std::ofstream csv(folder / "data.csv");
    for (int s = 0; s < 64; ++s) csv << (s == 20 ? "3e38" : "1") << ",2,3,4\n";
  }
  const std::string data = "={type=\"csv\", path=\"" + folder / "data.csv" + "\"}";
  const std::vector<Json> lines =
      steps_of(keys({"data.train" + data, "data.eval" + data, "data.train.shuffle=false",
                     "metrics=[]", "loss={type=\"mse\", from=[\"output\", \"input\"]}"}));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["step"] == 3);  // with sample 20
  CHECK(lines[0]["skipped"] == true);
  CHECK(lines[0]["skipped_steps"] == 1);
  CHECK(lines[1]["step"] == 8);
  CHECK_FALSE(lines[1].contains("skipped"));
  CHECK(lines[1]["skipped_steps"] == 1);
}

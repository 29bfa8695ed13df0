// Losses of one model that count different weights, in 16 bits: beside f32, with statistics, over a
// resume; and the loss scale, which follows all losses.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/session/sessions.hpp"

namespace {

using namespace plait;
using namespace plait::test;
using Json = nlohmann::json;

// Every fourth sample has a label; all of them have values.
std::vector<std::string> experiment(const Folder& folder, const std::vector<std::string>& more) {
  {
    std::ofstream csv(folder / "data.csv");
    csv << "a,b,c,d,label\n";
    for (int s = 0; s < 60; ++s)
      csv << s % 7 * 0.25 << "," << s % 5 * 0.5 << "," << s % 3 << ",1,"
          << (s % 4 == 0 ? s % 3 : -1) << "\n";
  }
  std::vector<std::string> all = {
      "data.train={type=\"csv\", path=\"" + (folder / "data.csv") +
          "\", target=[\"label\"], target_type=\"i32\"}",
      "loss=[{type=\"cross_entropy\", name=\"labels\"}, {type=\"mse\", name=\"values\", "
      "from=[\"output\", \"input\"], weight=0.5}]",
      "model.layers[2].p=0",
      "run.steps=8",
      "run.log_every=1",
      "statistics.every=2",
      "statistics.of=[\"gradients\", \"activation_gradients\"]"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<Json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<Json> found;
  for (std::string line; std::getline(file, line);) found.push_back(Json::parse(line));
  return found;
}

struct Trained {
  std::vector<double> losses, labels, values;      // by step
  std::map<std::string, std::vector<double>> l2;   // of gradients by tensor
  std::map<std::string, std::string> checkpoints;  // tensors of all
};

void train(const std::vector<std::string>& keys, const std::string& run_dir,
           session::Resume resume = session::Resume::kNever) {
  const auto outcomes = run_all(
      keys, 1, run_dir, [](int) -> FileSystem& { return FileSystem::posix(); },
      [&](int, session::Settings& s) { s.resume = resume; });
  REQUIRE_MESSAGE(outcomes[0].code == PLAIT_OK, outcomes[0].error);
}

Trained result_of(const std::string& run_dir) {
  Trained t;
  for (const Json& line : lines_of(run_dir + "/metrics.ndjson")) {
    if (line.contains("event")) continue;
    t.losses.push_back(line["loss"]);
    t.labels.push_back(line["loss.labels"]);
    t.values.push_back(line["loss.values"]);
  }
  for (const Json& line : lines_of(run_dir + "/statistics.ndjson"))
    if (line.value("event", "") == "statistics") t.l2[line["tensor"]].push_back(line["l2"]);
  t.checkpoints = tensors_of(run_dir);
  return t;
}

}  // namespace

TEST_CASE("losses of different weights in 16 bits: figures, statistics, and a resumed run") {
  const Folder folder;
  train(experiment(folder, {}), folder / "f32");
  const Trained wide = result_of(folder / "f32");
  REQUIRE(wide.losses.size() == 8);
  for (const char* compute : {"bf16", "f16"}) {
    CAPTURE(compute);
    const std::string low = "precision.compute=\"" + std::string(compute) + "\"",
                      whole = folder / ("whole-" + std::string(compute)),
                      parts = folder / ("parts-" + std::string(compute));
    train(experiment(folder, {low, "batch.micro=2"}), whole);
    const Trained one = result_of(whole);
    // Eight steps add up the rounding of products, of 8 bits at least.
    constexpr double kClose = 8 * 0x1p-8;
    REQUIRE(one.losses.size() == 8);
    for (size_t i = 0; i < 8; ++i) {
      CHECK(one.losses[i] == doctest::Approx(wide.losses[i]).epsilon(kClose));
      CHECK(one.losses[i] == doctest::Approx(one.labels[i] + 0.5 * one.values[i]).epsilon(1e-5));
    }
    REQUIRE(one.l2.size() == wide.l2.size());
    for (const auto& [tensor, l2] : wide.l2) {
      CAPTURE(tensor);
      REQUIRE(one.l2.at(tensor).size() == 4);
      // Activation gradients are those of the first micro-batch.
      if (tensor.starts_with("gradients/"))
        for (size_t i = 0; i < 4; ++i)
          CHECK(one.l2.at(tensor)[i] == doctest::Approx(l2[i]).epsilon(kClose));
    }
    train(experiment(folder, {low, "batch.micro=2", "run.steps=4"}), parts);
    train(experiment(folder, {low, "batch.micro=2"}), parts, session::Resume::kMust);
    const Trained two = result_of(parts);
    CHECK(two.losses == one.losses);
    CHECK(two.l2 == one.l2);
    const std::string last = "step-0000000008/model.safetensors";
    CHECK(two.checkpoints.at(last) == one.checkpoints.at(last));
  }
}

TEST_CASE("the loss scale means the same whichever loss comes first") {
  Log log{[](uint32_t, std::string_view) {}};
  const std::string rows = "{type=\"cross_entropy\", name=\"rows\"}",
                    values = "{type=\"mse\", name=\"values\", from=[\"narrow\", \"wide\"]}";
  // The second loss adds up 64 rows for each sample, the first one.
  const auto rows_of = [&](const std::string& losses) {
    const auto plan = make_plan(
        {"precision.compute=\"f16\"", "data.train.shape=[64, 4]",
         "model.layers=[{type=\"linear\", out=4, as=[\"narrow\"]}, {type=\"linear\", out=4, "
         "as=[\"wide\"]}, {type=\"flatten\"}, {type=\"linear\", out=4}]",
         "loss=[" + losses + "]"},
        FileSystem::posix(), 0, 1, log);
    return plan->loss_rows;
  };
  const double one = rows_of(rows), many = rows_of(values);
  CHECK(one == 8);
  CHECK(many >= 8 * 64);
  CHECK(rows_of(rows + ", " + values) == many);
  CHECK(rows_of(values + ", " + rows) == many);
}

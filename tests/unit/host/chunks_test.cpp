// Logits in chunks of rows: the same losses with less memory, and what a host can then predict.
#include <nlohmann/json.hpp>

#include <algorithm>

#include "tests/unit/host/host.hpp"

using host::Run;

namespace {

// 2048 rows of 1024 classes: logits of 8 MiB.
const std::string kModel = R"(
[run]
seed = 4
threads = 1
steps = 4
[batch]
global = 2048
eval = 2048
[data.train]
type = "synthetic"
samples = 4096
shape = [16]
classes = 1024
[data.eval]
type = "synthetic"
samples = 2048
shape = [16]
classes = 1024
[model]
layers = [
  {type = "linear", name = "body", out = 32, as = ["hidden"]},
  {type = "relu"},
  {type = "linear", name = "head", out = 1024},
]
[loss]
type = "cross_entropy"
[[metrics]]
type = "accuracy"
[optimizer]
type = "sgd"
learning_rate = 0.1
)";

Run run_with(const std::vector<const char*>& overrides) {
  return Run(kModel, "", PLAIT_RESUME_NEVER, overrides);
}

nlohmann::json plan_of(const Run& run) {
  plait_text* json = nullptr;
  host::check(plait_plan_describe(run.plan(), &json));
  return nlohmann::json::parse(host::take(json));
}

host::Failure predict(const Run& run, const char* value, size_t bytes) {
  const std::vector<float> x(16 * 4);
  std::vector<float> out(bytes / sizeof(float));
  int64_t shape[] = {4, 16};
  plait_dl_tensor tensor{const_cast<float*>(x.data()), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  plait_feed feed{};
  feed.struct_size = sizeof feed;
  feed.field = "x";
  feed.tensor = &tensor;
  return host::failure_of([&] {
    host::check(plait_session_predict(run.session(), &feed, 1, value, out.data(), bytes));
  });
}

}  // namespace

TEST_CASE("chunks: the same losses and metrics, with memory for one chunk") {
  const Run whole = run_with({"topology.chunk_mib=0"}),
            chunks = run_with({"topology.chunk_mib=1", "topology.chunk_rows=64"});
  const std::vector<double> expected = whole.losses(4), found = chunks.losses(4);
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  const auto evaluation = [](const Run& run) {
    plait_text* json = nullptr;
    host::check(plait_session_evaluate(run.session(), "eval", &json));
    return nlohmann::json::parse(host::take(json));
  };
  const auto a = evaluation(whole), b = evaluation(chunks);
  CHECK(b.at("loss").get<double>() == doctest::Approx(a.at("loss").get<double>()).epsilon(1e-5));
  CHECK(b.at("metrics").at("accuracy").get<double>() ==
        doctest::Approx(a.at("metrics").at("accuracy").get<double>()).epsilon(1e-3));
  const auto transient = [](const Run& run) {
    return plan_of(run).at("memory").at("transient").get<uint64_t>();
  };
  CHECK(transient(chunks) < transient(whole) / 3);
  // The default: chunks from 64 MiB on.
  CHECK(transient(run_with({})) == transient(whole));
}

TEST_CASE("several values come of one run, each as if alone") {
  const Run run = run_with({"topology.chunk_mib=0"});
  std::vector<float> x(16 * 4), hidden(4 * 32), output(4 * 1024), alone(hidden.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  int64_t shape[] = {4, 16};
  plait_dl_tensor tensor{x.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  const plait_feed feed{sizeof(plait_feed), "x", &tensor};
  const auto bytes = [](const std::vector<float>& v) { return v.size() * sizeof(float); };
  const plait_prediction both[] = {{"hidden", hidden.data(), bytes(hidden)},
                                   {"output", output.data(), bytes(output)}};
  host::check(plait_session_predict_all(run.session(), &feed, 1, both, 2));
  host::check(plait_session_predict(run.session(), &feed, 1, "hidden", alone.data(), bytes(alone)));
  CHECK(hidden == alone);
  CHECK(*std::max_element(output.begin(), output.end()) > 0);
  CHECK(host::failure_of([&] {
          host::check(plait_session_predict_all(run.session(), &feed, 1, both, 0));
        }).text.find("name at least one value") != std::string::npos);
}

TEST_CASE("a value that is larger than a chunk has no memory unless asked for") {
  const Run chunks = run_with({"topology.chunk_mib=1"});
  const auto refused = predict(chunks, "output", 4 * 1024 * 4);
  CHECK(refused.code == PLAIT_ERR_CONFIG);
  CHECK(refused.text.find("the value 'output', 8388608 bytes for a batch, is not kept: "
                          "evaluate.outputs is \"auto\"; set it to \"all\"") != std::string::npos);
  CHECK(predict(chunks, "hidden", 4 * 32 * 4).code == PLAIT_OK);
  CHECK(predict(chunks, "hiden", 4).code == PLAIT_ERR_NOT_FOUND);
  CHECK(predict(run_with({"topology.chunk_mib=1", "evaluate.outputs=all"}), "output", 4 * 1024 * 4)
            .code == PLAIT_OK);
  CHECK(predict(run_with({"evaluate.outputs=none"}), "hidden", 4 * 32 * 4).code ==
        PLAIT_ERR_CONFIG);
}

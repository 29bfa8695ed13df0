// Losses of one model that count different weights: labels of which some are ignored, and a frozen
// teacher's outputs, which count every sample.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

using host::Run;
using plait::test::GoldenFile;

namespace {

constexpr size_t kBatch = 6, kFeatures = 13, kClasses = 5, kSteps = 10;

std::string distillation(const std::string& data, const std::string& device, int micro,
                         const std::string& optimizer) {
  return "[run]\nthreads = 1\ndevice = \"" + device +
         "\"\n[precision]\ncompute = \"f64\"\n[batch]\nglobal = 6\neval = 6\nmicro = " +
         std::to_string(micro) + "\n[data.train]\n" + data +
         "\n[models.teacher]\nfrozen = true\nlayers = [{type = \"linear\", out = 5}]\n"
         "[models.student]\nlayers = [{type = \"linear\", out = 11}, {type = \"relu\"}, "
         "{type = \"linear\", out = 5}]\n"
         "[[models.student.losses]]\ntype = \"cross_entropy\"\n"
         "[[models.student.losses]]\ntype = \"mse\"\nfrom = [\"output\", \"teacher.output\"]\n"
         "weight = 0.5\n"
         "[[models.student.losses]]\ntype = \"huber\"\nfrom = [\"output\", \"teacher.output\"]\n"
         "weight = 0.25\n"
         "[models.student.optimizer]\n" +
         optimizer;
}

constexpr char kFed[] = "type = \"synthetic\"\nshape = [13]\nclasses = 5";

void write(const Run& run, const std::string& parameter, const std::vector<double>& values) {
  host::check(plait_session_write(run.session(), parameter.c_str(), values.data(),
                                  values.size() * sizeof(double)));
}

std::vector<double> read(const Run& run, const std::string& parameter, size_t n) {
  std::vector<double> values(n);
  host::check(plait_session_read(run.session(), parameter.c_str(), values.data(),
                                 values.size() * sizeof(double)));
  return values;
}

struct Inputs {
  explicit Inputs(const GoldenFile& golden) {
    for (const double v : golden.values("distillation/x")) x.push_back(static_cast<float>(v));
    for (const double v : golden.values("distillation/w")) w.push_back(static_cast<float>(v));
    for (const double v : golden.values("distillation/target"))
      target.push_back(static_cast<int32_t>(v));
  }
  plait_step_result step(const Run& run, size_t batch) {
    plait_dl_tensor at{
        x.data() + batch * kBatch * kFeatures, {1, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0};
    plait_dl_tensor label{
        target.data() + batch * kBatch, {1, 0}, 1, {0, 32, 1}, x_shape, nullptr, 0};
    plait_dl_tensor weight{w.data() + batch * kBatch, {1, 0}, 1, {2, 32, 1}, x_shape, nullptr, 0};
    const plait_feed feeds[] = {{sizeof(plait_feed), "x", &at},
                                {sizeof(plait_feed), "label", &label},
                                {sizeof(plait_feed), "weight", &weight}};
    plait_step_result r{};
    r.struct_size = sizeof r;
    host::check(plait_session_step(run.session(), feeds, 3, &r));
    return r;
  }

  std::vector<float> x, w;
  std::vector<int32_t> target;
  int64_t x_shape[2] = {kBatch, kFeatures};
};

const std::map<std::string, std::string> kParameters = {
    {"layer1", "student.linear1"}, {"layer2", "student.linear2"}, {"teacher", "teacher.linear1"}};

}  // namespace

TEST_CASE("a student of labels and of a teacher follows PyTorch in float64, in any micro-batches") {
  const GoldenFile golden("distillation.safetensors");
  Inputs in(golden);
  const auto losses = golden.values("distillation/losses"),
             norms = golden.values("distillation/grad_norms");
  for (const std::string device : {"reference", "cpu"})
    for (const int micro : {6, 3, 2, 1}) {
      CAPTURE(device);
      CAPTURE(micro);
      const Run run(distillation(
          kFed, device, micro,
          "type = \"sgd\"\nlearning_rate = 0.05\nmomentum = 0.9\nclip_grad_norm = 0.5\n"));
      for (const auto& [name, parameter] : kParameters)
        for (const char* part : {".weight", ".bias"})
          write(run, parameter + part, golden.values("distillation/init." + name + part));
      for (size_t i = 0; i < kSteps; ++i) {
        const auto r = in.step(run, i);
        CAPTURE(i);
        CHECK(r.loss == doctest::Approx(losses[i]).epsilon(1e-12));
        CHECK(r.grad_norm == doctest::Approx(norms[i]).epsilon(1e-12));
      }
      for (const auto& [name, parameter] : kParameters)
        for (const char* part : {".weight", ".bias"}) {
          const auto expected = golden.values("distillation/final." + name + part);
          const auto found = read(run, parameter + part, expected.size());
          for (size_t i = 0; i < found.size(); ++i)
            CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-12));
        }
    }
}

TEST_CASE("gradients of losses that count different weights are those of the evaluated loss") {
  const host::TempFolder folder;
  {
    std::ofstream csv(folder / "data.csv");
    csv << "a,b,c,label,importance\n";
    const int labels[kBatch] = {-1, 3, 0, -1, 4, -1};
    for (size_t s = 0; s < kBatch; ++s) {
      for (size_t f = 0; f < 3; ++f) csv << std::sin(static_cast<double>(3 * s + f) + 0.5) << ",";
      csv << labels[s] << "," << 0.5 + 0.25 * static_cast<double>(s) << "\n";
    }
  }
  const std::string data = "type = \"csv\"\npath = \"" + (folder / "data.csv") +
                           "\"\ntarget = [\"label\"]\ntarget_type = \"i32\"\nweight = "
                           "\"importance\"\nshuffle = false";
  const auto loss = [](const Run& run) {
    plait_text* text = nullptr;
    host::check(plait_session_evaluate(run.session(), "train", &text));
    return nlohmann::json::parse(host::take(text))["loss"].get<double>();
  };
  for (const int micro : {6, 2}) {
    CAPTURE(micro);
    const Run run(distillation(data, "cpu", micro, "type = \"sgd\"\nlearning_rate = 1.0\n"));
    const std::string parameters[] = {"student.linear1.weight", "student.linear2.bias"};
    const size_t sizes[] = {33, kClasses};
    std::vector<double> before[2], numeric[2];
    for (size_t p = 0; p < 2; ++p) {
      before[p] = read(run, parameters[p], sizes[p]);
      for (size_t i = 0; i < sizes[p]; ++i) {
        constexpr double kStep = 1e-5;
        double at[2];
        for (const int side : {0, 1}) {
          std::vector<double> moved = before[p];
          moved[i] += side ? kStep : -kStep;
          write(run, parameters[p], moved);
          at[side] = loss(run);
        }
        numeric[p].push_back((at[1] - at[0]) / (2 * kStep));
      }
      write(run, parameters[p], before[p]);
    }
    const double evaluated = loss(run);
    CHECK(run.step().loss == doctest::Approx(evaluated).epsilon(1e-12));
    double largest = 0;
    for (size_t p = 0; p < 2; ++p) {
      const auto after = read(run, parameters[p], sizes[p]);
      for (size_t i = 0; i < sizes[p]; ++i) {
        CAPTURE(parameters[p]);
        CAPTURE(i);
        CHECK(std::abs(before[p][i] - after[i] - numeric[p][i]) < 1e-8);
        largest = std::max(largest, std::abs(numeric[p][i]));
      }
    }
    CHECK(largest > 0.01);
  }
}

TEST_CASE("a step in which no loss counts anything is the mean of nothing") {
  const GoldenFile golden("distillation.safetensors");
  Inputs in(golden);
  std::fill(in.w.begin(), in.w.end(), 0.0f);
  for (const int micro : {6, 2}) {
    const Run run(distillation(kFed, "cpu", micro,
                               "type = \"sgd\"\nlearning_rate = 0.05\n[guard]\nnonfinite_limit "
                               "= 1\n"));
    const auto before = read(run, "student.linear2.bias", kClasses);
    const host::Failure failure = host::failure_of([&] { in.step(run, 0); });
    CHECK(failure.code == PLAIT_ERR_DATA);
    CHECK(failure.text.find("the mean of nothing") != std::string::npos);
    CHECK(read(run, "student.linear2.bias", kClasses) == before);
  }
}

TEST_CASE("only losses that count different weights take programs of their own") {
  const auto counted = [](const std::string& second) {
    const Run run(
        "[batch]\nglobal = 6\nmicro = 2\n[data.train]\ntype = \"synthetic\"\nshape = [5]\n"
        "classes = 5\n[model]\nlayers = [{type = \"linear\", out = 5}]\n"
        "losses = [{type = \"cross_entropy\"}, " +
        second + "]\noptimizer = {type = \"sgd\", learning_rate = 0.1}\n");
    plait_text* text = nullptr;
    host::check(plait_plan_describe(run.plan(), &text));
    const auto plan = nlohmann::json::parse(host::take(text));
    std::map<std::string, int> launches;
    for (const auto& launch : plan["launches"]["step"]) ++launches[launch["program"]];
    return std::pair{launches["count_weights"], launches["loss_factors"]};
  };
  CHECK(counted("{type = \"cross_entropy\", name = \"soft\", label_smoothing = 0.1}") ==
        std::pair{0, 0});
  CHECK(counted("{type = \"mse\", from = [\"output\", \"x\"]}") == std::pair{3, 1});
}

TEST_CASE("weights that depend on parameters are refused beside others, and named") {
  const auto weighed = [](const std::string& more) {
    return host::failure_of([&] {
      Run("[batch]\nglobal = 6\n[data.train]\ntype = \"synthetic\"\nshape = [13]\nclasses = 5\n"
          "[model]\nlayers = [{type = \"linear\", out = 1, as = [\"gate\"]}, "
          "{type = \"reshape\", shape = [], as = [\"weights\"]}, "
          "{type = \"linear\", from = [\"x\"], out = 5}]\n"
          "[[losses]]\ntype = \"cross_entropy\"\nfrom = [\"output\", \"label\", \"weights\"]\n" +
          more + "[optimizer]\ntype = \"sgd\"\nlearning_rate = 0.1\n");
    });
  };
  CHECK(weighed("").code == PLAIT_OK);
  const host::Failure refused =
      weighed("[[losses]]\ntype = \"mse\"\nfrom = [\"gate\", \"label\"]\n");
  CHECK(refused.code == PLAIT_ERR_CONFIG);
  CAPTURE(refused.text);
  CHECK(refused.text.find("cross_entropy 'model.cross_entropy'") != std::string::npos);
  CHECK(refused.text.find("depend on parameters") != std::string::npos);
}

// Training compared with PyTorch in float64 (tests/golden): every loss, gradient norm and final
// weight, for each optimizer, on both devices.
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

using host::Run;
using nlohmann::json;
using plait::test::GoldenFile;

namespace {

// Each optimizer's case with its attributes.
std::vector<std::pair<std::string, json>> optimizers(const GoldenFile& golden) {
  std::vector<std::pair<std::string, json>> all;
  for (const auto& [name, text] : golden.header().metadata)
    if (name.starts_with("training.")) all.emplace_back(name, json::parse(text));
  return all;
}

std::string experiment(const json& a, const std::string& device, const char* compute = "f32") {
  std::string type = a["optimizer"];
  if (a.value("decoupled", false)) type += "w";
  std::string o = "[optimizer]\ntype = \"" + type + "\"\nlearning_rate = " + a["rate"].dump() +
                  "\nweight_decay = " + a.value("weight_decay", json(0.0)).dump() +
                  "\nclip_grad_norm = " + a.value("clip_norm", json(0.0)).dump() + "\n";
  for (const char* key : {"momentum", "nesterov", "beta1", "beta2", "eps", "alpha"})
    if (a.contains(key)) o += std::string(key) + " = " + a[key].dump() + "\n";
  for (const auto& [key, option] : {std::pair{"beta2_decay", "beta2_decay"},
                                    {"eps1", "eps1"},
                                    {"eps2", "eps2"},
                                    {"d", "clip_threshold"},
                                    {"vectors", "adapt_vectors"},
                                    {"iterations", "iterations"},
                                    {"coefficients", "coefficients"},
                                    {"scale", "scale"},
                                    {"ratio", "adamw_ratio"}})
    if (a.contains(key)) o += std::string(option) + " = " + a[key].dump() + "\n";
  if (a.contains("adamw"))
    for (const auto& [key, option] :
         {std::pair{"beta1", "beta1"}, {"beta2", "beta2"}, {"eps", "adamw_eps"}})
      o += std::string(option) + " = " + a["adamw"][key].dump() + "\n";
  if (a.contains("independent_decay"))
    o += "independent_weight_decay = " + a["independent_decay"].dump() + "\n";
  std::string layers;
  for (int out : {11, 7, 5}) {
    if (out != 11) layers += "[[model.layers]]\ntype = \"relu\"\n";
    layers += "[[model.layers]]\ntype = \"linear\"\nout = " + std::to_string(out) + "\n";
  }
  return "[run]\ndevice = \"" + device + "\"\n[precision]\ncompute = \"" + compute +
         "\"\n[batch]\nglobal = 6\n[data.train]\ntype = \"synthetic\"\nshape = [13]\nclasses = "
         "5\n" +
         layers + "[loss]\ntype = \"cross_entropy\"\n" + o;
}

struct Inputs {
  std::vector<float> x, w;
  std::vector<int32_t> target;
  int64_t x_shape[2] = {6, 13}, row_shape[1] = {6};
};

plait_step_result step(const Run& run, Inputs& in, size_t batch, bool weighted) {
  plait_dl_tensor x{in.x.data() + batch * 78, {1, 0}, 2, {2, 32, 1}, in.x_shape, nullptr, 0};
  plait_dl_tensor y{in.target.data() + batch * 6, {1, 0}, 1, {0, 32, 1}, in.row_shape, nullptr, 0};
  plait_dl_tensor w{in.w.data() + batch * 6, {1, 0}, 1, {2, 32, 1}, in.row_shape, nullptr, 0};
  const plait_feed feeds[] = {{sizeof(plait_feed), "x", &x},
                              {sizeof(plait_feed), "label", &y},
                              {sizeof(plait_feed), "weight", &w}};
  plait_step_result r{};
  r.struct_size = sizeof r;
  host::check(plait_session_step(run.session(), feeds, weighted ? 3 : 2, &r));
  return r;
}

template <class T>
std::vector<T> as(const std::vector<double>& v) {
  return std::vector<T>(v.begin(), v.end());
}

}  // namespace

TEST_CASE("20 steps with every optimizer follow PyTorch in float64") {
  const GoldenFile golden("training.safetensors");
  Inputs in{as<float>(golden.values("training/x")), as<float>(golden.values("training/w")),
            as<int32_t>(golden.values("training/target"))};
  for (const std::string device : {"reference", "cpu"})
    for (const auto& one : optimizers(golden)) {
      const auto& name = one.first;
      const auto& attributes = one.second;
      CAPTURE(device);
      CAPTURE(name);
      const Run run(experiment(attributes, device));
      for (const char* layer : {"1", "2", "3"})
        for (const char* part : {"weight", "bias"}) {
          const auto v =
              as<float>(golden.values(std::string("training/init.layer") + layer + "." + part));
          host::check(plait_session_write(
              run.session(), (std::string("model.linear") + layer + "." + part).c_str(), v.data(),
              v.size() * sizeof(float)));
        }
      const bool weighted = attributes.value("sample_weights", false);
      const auto losses = golden.values(name + "/losses"),
                 norms = golden.values(name + "/grad_norms");
      // Storage is f32: an update rounds to 6e-8 relative. Sign-like optimizers (lion; rmsprop and
      // adam where a gradient is tiny) turn a rounding at zero into a whole step of the learning
      // rate, so weights get that tolerance.
      const bool signlike = attributes["optimizer"] != "sgd";
      for (size_t i = 0; i < losses.size(); ++i) {
        const auto r = step(run, in, i, weighted);
        CAPTURE(i);
        CHECK(r.loss == doctest::Approx(losses[i]).epsilon(signlike ? 1e-4 : 5e-6));
        CHECK(r.grad_norm == doctest::Approx(norms[i]).epsilon(signlike ? 1e-3 : 2e-5));
      }
      const auto final_weight = golden.values(name + "/final.layer2.weight");
      const auto found = run.read("model.linear2.weight", final_weight.size());
      for (size_t i = 0; i < found.size(); ++i)
        CHECK(found[i] ==
              doctest::Approx(final_weight[i]).epsilon(signlike ? 1e-3 : 1e-5).scale(0.1));
    }
}

TEST_CASE("in f64, 20 steps with every optimizer are PyTorch's to the last digits") {
  const GoldenFile golden("training.safetensors");
  Inputs in{as<float>(golden.values("training/x")), as<float>(golden.values("training/w")),
            as<int32_t>(golden.values("training/target"))};
  for (const std::string device : {"reference", "cpu"})
    for (const auto& one : optimizers(golden)) {
      const auto& name = one.first;
      const auto& attributes = one.second;
      CAPTURE(device);
      CAPTURE(name);
      const Run run(experiment(attributes, device, "f64"));
      std::vector<std::string> parameters;
      for (const char* layer : {"1", "2", "3"})
        for (const char* part : {".weight", ".bias"})
          parameters.push_back(std::string(layer) + part);
      for (const std::string& p : parameters) {
        const auto v = golden.values("training/init.layer" + p);
        host::check(plait_session_write(run.session(), ("model.linear" + p).c_str(), v.data(),
                                        v.size() * sizeof(double)));
      }
      const bool weighted = attributes.value("sample_weights", false);
      const auto losses = golden.values(name + "/losses"),
                 norms = golden.values(name + "/grad_norms");
      for (size_t i = 0; i < losses.size(); ++i) {
        const auto r = step(run, in, i, weighted);
        CAPTURE(i);
        CHECK(r.loss == doctest::Approx(losses[i]).epsilon(1e-12));
        CHECK(r.grad_norm == doctest::Approx(norms[i]).epsilon(1e-12));
      }
      for (const std::string& p : parameters) {
        const auto expected = golden.values(name + "/final.layer" + p);
        std::vector<double> found(expected.size());
        host::check(plait_session_read(run.session(), ("model.linear" + p).c_str(), found.data(),
                                       found.size() * sizeof(double)));
        for (size_t i = 0; i < found.size(); ++i)
          CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-12));
      }
    }
}

// What tests of PEFT methods share: a perceptron (13 inputs, 5 classes) in f64 with adapters, its
// base from tests/golden/golden_peft.py.
#pragma once

#include <plait/adapters.h>
#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/host/host.hpp"
#include "tests/unit/support/golden_file.hpp"

namespace host::peft {

using nlohmann::json;

inline std::string toml_of(const json& entry) {
  std::string text = "[[model.adapters]]\n";
  for (const auto& [key, value] : entry.items()) text += key + " = " + value.dump() + "\n";
  return text;
}

inline std::string recipe(const json& adamw) {
  return std::string("[loss]\ntype = \"cross_entropy\"\n[optimizer]\ntype = \"adamw\"\n") +
         "learning_rate = " + adamw["lr"].dump() + "\nbeta1 = " + adamw["betas"][0].dump() +
         "\nbeta2 = " + adamw["betas"][1].dump() + "\neps = " + adamw["eps"].dump() +
         "\nweight_decay = " + adamw["weight_decay"].dump() + "\n";
}

inline std::string experiment(const json& adapters, const json& adamw, const std::string& more) {
  std::string layers;
  for (int out : {11, 7, 5}) {
    if (out != 11) layers += "[[model.layers]]\ntype = \"relu\"\n";
    layers += "[[model.layers]]\ntype = \"linear\"\nout = " + std::to_string(out) + "\n";
  }
  for (const json& entry : adapters) layers += toml_of(entry);
  return more +
         "[precision]\ncompute = \"f64\"\n[batch]\nglobal = 6\n[data.train]\ntype = \"synthetic\"\n"
         "shape = [13]\nclasses = 5\n" +
         layers + recipe(adamw);
}

inline void write(const Run& run, const std::string& name, const std::vector<double>& v) {
  host::check(
      plait_session_write(run.session(), name.c_str(), v.data(), v.size() * sizeof(double)));
}
inline std::vector<double> read(const Run& run, const std::string& name, size_t n) {
  std::vector<double> v(n);
  host::check(plait_session_read(run.session(), name.c_str(), v.data(), n * sizeof(double)));
  return v;
}

// {Plait's name, the name in the file} of the model's own parameters.
inline std::vector<std::pair<std::string, std::string>> base() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const char* layer : {"1", "2", "3"})
    for (const char* part : {".weight", ".bias"})
      names.emplace_back(std::string("model.linear") + layer + part,
                         std::string("peft/base.layer") + layer + part);
  return names;
}

// x: empty where the program does not read it.
inline plait_step_result step(const Run& run, std::vector<float>& x, std::vector<int32_t>& target) {
  int64_t x_shape[2] = {6, 13}, row_shape[1] = {6};
  plait_dl_tensor dx{x.data(), {1, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0};
  plait_dl_tensor dy{target.data(), {1, 0}, 1, {0, 32, 1}, row_shape, nullptr, 0};
  const plait_feed feeds[] = {{sizeof(plait_feed), "label", &dy}, {sizeof(plait_feed), "x", &dx}};
  plait_step_result r{};
  r.struct_size = sizeof r;
  host::check(plait_session_step(run.session(), feeds, x.empty() ? 1 : 2, &r));
  return r;
}

// What the model makes of the first batch.
inline std::vector<double> predict(const Run& run, const std::vector<double>& all_x) {
  std::vector<float> x(all_x.begin(), all_x.begin() + 78);
  int64_t x_shape[2] = {6, 13};
  plait_dl_tensor dx{x.data(), {1, 0}, 2, {2, 32, 1}, x_shape, nullptr, 0};
  const plait_feed feed{sizeof(plait_feed), "x", &dx};
  std::vector<double> out(30);
  host::check(plait_session_predict(run.session(), &feed, 1, "output", out.data(),
                                    out.size() * sizeof(double)));
  return out;
}

inline void check_close(const std::vector<double>& found, const std::vector<double>& expected,
                        double epsilon) {
  REQUIRE(found.size() == expected.size());
  for (size_t k = 0; k < expected.size(); ++k)
    CHECK(found[k] == doctest::Approx(expected[k]).epsilon(epsilon));
}

}  // namespace host::peft

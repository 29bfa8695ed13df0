// Training with attention by cuDNN (precision.library_attention) on a GPU, beside Plait's kernels.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cuda_emulator/session/host.hpp"

using namespace cuda_emulator;

namespace {

using Keys = std::vector<std::string>;

// A sample is twelve tokens of sixteen channels.
Keys keys(const Keys& more) {
  Keys all = {"data.train.shape=[12, 16]", "precision.compute=bf16",
              "model.layers=[{type = \"attention\", name = \"attn\", heads = 2, kv_heads = 1}, "
              "{type = \"flatten\"}, {type = \"linear\", name = \"head\", out = 10}]"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<double> losses(OnGpu& of) {
  std::vector<double> all;
  for (int i = 0; i < 8; ++i) all.push_back(of.session.step().loss);
  return all;
}

std::string kernel_of_attention(const OnGpu& of) {
  std::string name;
  const auto plan = nlohmann::json::parse(of.plan.describe());
  for (const auto& program : plan.at("programs"))
    for (const auto& call : program.at("kernels"))
      if (call.at("op") == "dot_product_attention") name = call.at("kernel").get<std::string>();
  return name;
}

std::string summary(const OnGpu& of) {
  return nlohmann::json::parse(of.session.describe()).at("device_summary").get<std::string>();
}

}  // namespace

TEST_CASE("a session trains with attention by cuDNN") {
  const std::string on = "precision.library_attention=true";
  OnGpu own(keys({})), library(keys({on})), again(keys({on})),
      by_calls(keys({on, "device.graphs=false"}));
  CHECK(kernel_of_attention(own) == "tiles");
  CHECK(kernel_of_attention(library) == "cudnn");
  CHECK(summary(own).find("cuDNN") == std::string::npos);
  CHECK(summary(library).find(", attention by cuDNN 9.19.0") != std::string::npos);
  const auto expected = losses(own), found = losses(library);
  CHECK(found == losses(again));
  CHECK(found == losses(by_calls));
  for (size_t i = 0; i < found.size(); ++i)
    CHECK(std::abs(found[i] - expected[i]) <= 2e-2 * std::abs(expected[i]));
  CHECK(found.back() < found.front());
}

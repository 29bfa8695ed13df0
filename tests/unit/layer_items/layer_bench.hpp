// Builds one item on the fake builder.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/support/golden.hpp"

namespace plait::fake {

// All layer plugins, loaded.
inline const Host& layers() {
  static const Host* host = [] {
    auto* h = new Host;
    for (const char* name :
         {"dense", "activation", "norm", "dropout", "embedding", "shape", "loss", "metric"})
      h->load(std::string("layer-") + name);
    return h;
  }();
  return *host;
}

struct Bench {
  Builder b;

  Tensor layer(const std::string& name, const Options::Given& given,
               const std::vector<Tensor>& in) {
    const auto& item = layers().item<plait_layer_item>(PLAIT_KIND_LAYER, name);
    REQUIRE(in.size() >= item.min_inputs);
    REQUIRE(in.size() <= item.max_inputs);
    return build(item, given, in, 1)[0];
  }
  // {sum of weight * loss, sum of weights}
  std::vector<double> loss(const std::string& name, const Options::Given& given,
                           const std::vector<Tensor>& in) {
    const auto sums = build(layers().item<plait_loss_item>(PLAIT_KIND_LOSS, name), given, in, 2);
    REQUIRE(sums[0].dims.empty());
    REQUIRE(sums[1].dims.empty());
    return {sums[0].v[0], sums[1].v[0]};
  }
  // The state; `result` receives the value of finish().
  std::vector<double> metric(const std::string& name, const Options::Given& given,
                             const std::vector<Tensor>& in, double* result = nullptr) {
    const auto& item = layers().item<plait_metric_item>(PLAIT_KIND_METRIC, name);
    const Tensor state = build(item, given, in, 1)[0];
    REQUIRE(state.dims == std::vector<int64_t>{item.n_state});
    if (result) *result = item.finish(state.v.data());
    return state.v;
  }

 private:
  template <class Item>
  std::vector<Tensor> build(const Item& item, const Options::Given& given,
                            const std::vector<Tensor>& in, size_t n_out) {
    const auto options = options_of(item, given);
    std::vector<plait_value> inputs, outputs(n_out);
    for (const Tensor& t : in) inputs.push_back(b.input(t));
    check(item.build(b.raw(), options->raw(), inputs.data(), static_cast<uint32_t>(inputs.size()),
                     outputs.data()));
    std::vector<Tensor> results;
    for (const plait_value v : outputs) results.push_back(b.at(v));
    return results;
  }
};

// The text of the error that f() throws.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Failure& e) {
    CHECK(e.code == PLAIT_ERR_CONFIG);
    return e.what();
  }
  return "no error";
}

}  // namespace plait::fake

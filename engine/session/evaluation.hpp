// The result of an evaluation, and what a prediction is to compute.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/json.hpp"

namespace plait::session {

struct Evaluation {
  int64_t step = 0;  // of the parameters
  std::string dataset;
  int64_t samples = 0;
  double loss = 0, seconds = 0;
  bool counts_nothing = false;  // the loss is NaN since no trained model counts any weight
  double perplexity = 0;        // of tokens; 0: the loss has none
  std::vector<std::pair<std::string, double>> metrics;  // as planned; NaN: nothing counted
};

// A named value to compute for the host's samples: their rows go to `out`, of host memory, unless
// it is nullptr. bytes = samples * row size.
struct Prediction {
  std::string value;
  void* out = nullptr;
  uint64_t bytes = 0;
};

// Writes the members of the open JSON object.
void write_members(JsonWriter& to, const Evaluation& e);

}  // namespace plait::session

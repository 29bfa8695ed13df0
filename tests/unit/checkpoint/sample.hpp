// A small model to save and compare, the same for every test.
#pragma once

#include <plait/tensor.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/checkpoint/store.hpp"

struct Sample {
  std::vector<float> weight, momentum;
  std::vector<int64_t> counter;

  // Values depend on the step, so that no two checkpoints are equal.
  explicit Sample(int64_t step, size_t n = 700) : weight(n), momentum(n), counter{step} {
    for (size_t i = 0; i < n; ++i) {
      weight[i] = static_cast<float>(step) + 0.001f * static_cast<float>(i);
      momentum[i] = -weight[i];
    }
  }
  std::vector<plait::checkpoint::SaveTensor> tensors() const {
    const auto n = static_cast<int64_t>(weight.size());
    return {{"fc.weight", PLAIT_F32, {n / 7, 7}, weight.data(), false},
            {"fc.weight.momentum", PLAIT_F32, {n / 7, 7}, momentum.data(), true},
            {"step", PLAIT_I64, {}, counter.data(), true}};
  }
  plait::checkpoint::RunState state() const {
    plait::checkpoint::RunState s;
    s.step = counter[0];
    s.samples = 32 * s.step;
    s.world = {2, 1, 1};
    s.seed = 42;
    s.random_step = s.step;
    s.cursors = {{"train", s.step}, {"eval \"x\"", 3}};
    s.config_hash = "00ff";
    s.engine_version = "0.1.0";
    s.experiment = "[run]\nsteps = " + std::to_string(s.step) + "\n";
    s.extra = "{\"scale\":1.5,\"list\":[1,2]}";
    return s;
  }
  // True if the checkpoint holds exactly this model.
  bool equals(const plait::checkpoint::Checkpoint& c) const {
    Sample back(0, weight.size());
    const int64_t shape[] = {static_cast<int64_t>(weight.size()) / 7, 7};
    c.read("fc.weight", PLAIT_F32, shape, back.weight.data());
    c.read("fc.weight.momentum", PLAIT_F32, shape, back.momentum.data());
    c.read("step", PLAIT_I64, {}, back.counter.data());
    return back.weight == weight && back.momentum == momentum && back.counter == counter &&
           c.state().step == counter[0];
  }
};

// A log that keeps its lines.
struct Lines {
  std::vector<std::string> all;
  plait::Log log{[this](uint32_t, std::string_view text) { all.emplace_back(text); }};
  bool mention(const std::string& part) const {
    for (const std::string& line : all)
      if (line.find(part) != std::string::npos) return true;
    return false;
  }
};

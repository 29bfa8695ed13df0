// A session on an emulated GPU.
#pragma once

#include <doctest/doctest.h>
#include <plait/plait.hpp>

#include <string>
#include <vector>

#include "tests/cuda_emulator/interface.hpp"

namespace cuda_emulator {

constexpr char kExperiment[] = R"([run]
steps = 40
seed = 3
device = "cuda"
[batch]
global = 12
[data.train]
type = "synthetic"
samples = 100
shape = [16]
classes = 10
[model]
layers = [{type = "linear", name = "fc", out = 16}, {type = "layer_norm"}, {type = "relu"},
          {type = "dropout", p = 0.1}, {type = "linear", name = "head", out = 10}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
clip_grad_norm = 1.0
schedule = {type = "cosine", warmup_steps = 5}
)";

struct OnGpu {
  explicit OnGpu(const std::vector<std::string>& overrides = {})
      : plan(plait::Experiment::parse(engine, kExperiment, "gpu.toml", overrides)),
        session(plan, settings()) {}
  static plait::EngineSettings loaded() {
    plait::EngineSettings s;
    s.keep_plugins_loaded = true;  // a leak checker needs their symbols at exit
    return s;
  }
  static plait::SessionSettings settings() {
    plait::SessionSettings s;
    s.no_files = true;
    return s;
  }
  plait::Engine engine{loaded()};
  plait::Plan plan;
  plait::Session session;
};

}  // namespace cuda_emulator

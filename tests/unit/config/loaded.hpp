// An experiment from its text, with the items of FakeCatalog.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "engine/config/schema.hpp"
#include "tests/unit/config/fake_catalog.hpp"

namespace plait::config {

struct Loaded {
  Experiment experiment;
  std::string problems;
};

inline const FakeCatalog& catalog() {
  static const FakeCatalog kCatalog;
  return kCatalog;
}

inline Loaded load(const std::string& text) {
  Problems problems;
  const Document document = Document::parse(text, "x.toml", problems);
  Experiment experiment = load_experiment(document, catalog(), PathResolver(), problems);
  return {std::move(experiment), problems.text()};
}

inline constexpr char kSmall[] = R"(
[run]
epochs = 4
[batch]
global = 32
[data.train]
type = "table"
file = "a.csv"
normalize.image = {divide = 255, mean = 0.1}
[data.eval]
type = "table"
file = "b.csv"
[[model.layers]]
type = "dense"
out = 120
parallel = "column"
[[model.layers]]
type = "ramp"
[[model.layers]]
type = "dense"
name = "head"
out = 10
from = "h"
as = ["logits"]
tie = {weight = "model.dense1.weight"}
[loss]
type = "squared"
weight = 2
[[metrics]]
type = "hits"
[[metrics]]
type = "hits"
k = 5
[optimizer]
type = "descent"
learning_rate = 0.1
clip_grad_norm = 1.0
schedule = {type = "slope", warmup = 3}
[[optimizer.groups]]
match = ["*.bias"]
weight_decay = 0.0
[[optimizer.groups]]
match = "head.*"
learning_rate = 1
frozen = true
schedule.type = "slope"
[evaluate]
early_stop = {metric = "hits2", patience = 2}
[device]
pin = false
)";

}  // namespace plait::config

// Figures of tensors, for the observation of a run: what the plan knows of them. A program leaves
// the sums and extremes of each (kit/ops/statistics.hpp), over all ranks, from which the session
// computes what is asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/storage.hpp"

namespace plait::plan {

enum class StatisticsOf : uint8_t {
  kParameters,
  kGradients,
  kActivations,
  kActivationGradients,
};

struct StatisticsTensor {
  std::string name;  // "gradients/model.linear1.weight"
  StatisticsOf of{};
  size_t source = 0;  // index into Plan::parameters, or Tracer::layer_outputs()
  size_t model = 0;
  int64_t elements = 0;  // of all ranks, each counted once, without padding
};

struct Statistics {
  std::vector<size_t> figures;  // indices into statistics_figures()
  bool histogram = false;       // some of them need it
  std::vector<StatisticsTensor> tensors;
  // f64: of each tensor n_sums() numbers, and kit::kStatisticsExtremes. scales, written by the
  // host: what gradients of the step are multiplied by, of each model; then the same for those that
  // are computed again.
  FlatBuffer sums, extremes, scales;
  int64_t n_sums() const;
};

}  // namespace plait::plan

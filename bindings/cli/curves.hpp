// The values of a run over its steps, as metrics.ndjson and statistics.ndjson have them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace plait::cli {

struct Curve {
  std::string name;
  std::vector<std::pair<int64_t, double>> points;  // (step, finite value), ascending by step
};

enum class CurvesOf {
  kMetrics,
  kAll,  // also statistics of tensors: "gradients/model.linear1.weight/l2", …
};

// The curves of a run directory or of a metrics.ndjson: "loss", "lr", …, and "eval/accuracy" for
// values of an evaluation; those whose name is wanted. What a resumed run computed again counts
// once. Errors: CliError for a file that is absent or has no lines with values.
std::vector<Curve> read_curves(const std::string& run,
                               const std::function<bool(const std::string&)>& wanted,
                               CurvesOf of = CurvesOf::kMetrics);

// The curves of these names, of all that there are, in their order. Errors: and CliError with the names that there are.
std::vector<Curve> read_named_curves(const std::string& run, const std::vector<std::string>& names);

}  // namespace plait::cli

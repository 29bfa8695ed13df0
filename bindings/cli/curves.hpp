// The values of a run over its steps, as metrics.ndjson has them.
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

// The curves of a run directory or of a metrics.ndjson: "loss", "lr", …, and "eval/accuracy" for
// values of an evaluation; those whose name is wanted. What a resumed run computed again counts
// once. Errors: CliError for a file that is absent or has no lines with values.
std::vector<Curve> read_curves(const std::string& run,
                               const std::function<bool(const std::string&)>& wanted);

// The curves of these names, in their order. Errors: and CliError with the names that there are.
std::vector<Curve> read_named_curves(const std::string& run, const std::vector<std::string>& names);

}  // namespace plait::cli

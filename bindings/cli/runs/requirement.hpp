// What a metric has to be: "accuracy>=0.97", of `plait eval --require`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

struct Requirement {
  std::string name, comparison;  // "<", "<=", "==", ">=" or ">"
  double value = 0;

  // Errors: CliError (kUsage) with what is expected.
  explicit Requirement(const std::string& text);
  // "": the evaluation meets it; else what is found and what was expected. A value that is not a
  // number meets nothing. Errors: CliError (kUsage) for a metric that it does not have.
  std::string fault(const Json& evaluation) const;
};

}  // namespace plait::cli

// What a file of predictions is of: two commands with the same subject write the same bytes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <plait/plait.hpp>
#include <string>

#include "bindings/cli/predictions/prediction_file.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

struct SubjectParts {
  const Experiment& experiment;
  const Json& checkpoint;    // as describe_checkpoint() says
  std::string dataset_name;  // "eval"
  const Json& dataset;       // as Dataset::describe() says
  const Values& values;
  std::string format;
  int64_t batch = 0, replicas = 1;
};
Json subject_of(const SubjectParts& parts);

}  // namespace plait::cli

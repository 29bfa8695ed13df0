// Evaluation metrics as text and as JSON.
#pragma once

#include <string>

#include "bindings/cli/terminal.hpp"

namespace plait::cli {

// What plait_session_evaluate() returned, as lines "loss 0.0912", "accuracy 0.9712".
void show_metrics(Terminal& terminal, const Json& evaluation);
// A metric as text with the digits that matter; "nan", "inf" or "-inf".
std::string metric_text(double value);
// A JSON number; NaN and infinity travel as the texts "nan", "inf" and "-inf", as in metrics.ndjson.
double number(const Json& value);
Json json_number(double value);

}  // namespace plait::cli

// Evaluation metrics as text and as JSON.
#pragma once

#include <string>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// Prints the result of plait_session_evaluate() as lines "loss 0.0912", "accuracy 0.9712".
void show_metrics(Terminal& terminal, const Json& evaluation);
// A duration: "0.8 ms", "2.41 s", "3661 s".
std::string seconds_text(double seconds);
// "1 step", "20 steps".
std::string counted(long long n, const char* noun);
// A metric as text with its significant digits; "nan", "inf" or "-inf".
std::string metric_text(double value);
// Of a rate: 0.25, 950, 12.3k, 4.56M.
std::string rate_number(double value);
// A value of a line of metrics.ndjson by its name: a rate, "samples_per_s", or a metric.
std::string value_text(const std::string& name, double value);
// Whether a member of a line of metrics.ndjson says what the line is, not a value over steps.
bool is_line_key(const std::string& name);
// A JSON number; NaN and infinity are the strings "nan", "inf" and "-inf", as in metrics.ndjson.
double number(const Json& value);
bool is_infinite(const Json& value);  // such a string
Json json_number(double value);

}  // namespace plait::cli

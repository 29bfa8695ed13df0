#include "bindings/cli/runs/metrics.hpp"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace plait::cli {

double number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return std::strtod(value.get_ref<const std::string&>().c_str(), nullptr);
  return std::nan("");
}

namespace {
std::string infinite_text(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}
}  // namespace

Json json_number(double value) {
  return std::isfinite(value) ? Json(value) : Json(infinite_text(value));
}

bool is_infinite(const Json& value) { return value == "nan" || value == "inf" || value == "-inf"; }

bool is_line_key(const std::string& name) {
  return name == "schema" || name == "step" || name == "time" || name == "elapsed_s" ||
         name == "event";
}

std::string seconds_text(double seconds) {
  if (seconds < 0.1) return strf("%.1f ms", seconds * 1e3);
  return strf(seconds < 100 ? "%.2f s" : "%.0f s", seconds);
}

std::string counted(long long n, const char* noun) {
  return strf("%lld %s%s", n, noun, n == 1 ? "" : "s");
}

std::string metric_text(double value) {
  if (!std::isfinite(value)) return infinite_text(value);
  const double size = std::fabs(value);
  return strf(size == 0 || (size >= 1e-3 && size < 1e5) ? "%.4f" : "%.4e", value);
}

std::string rate_number(double value) {
  if (!std::isfinite(value)) return infinite_text(value);
  const char* suffix = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (std::fabs(value) < 999.5) break;
    value /= 1000;
    suffix = next;
  }
  return strf("%.3g%s", value, suffix);
}

std::string value_text(const std::string& name, double value) {
  return name.ends_with("_per_s") ? rate_number(value) : metric_text(value);
}

void show_metrics(Terminal& terminal, const Json& evaluation) {
  terminal.paragraph("evaluated on [data." + evaluation.value("dataset", "eval") +
                     "]: " + counted(evaluation.value("samples", 0LL), "sample") + " in " +
                     seconds_text(number(evaluation.value("seconds", Json(0)))));
  std::string loss = "loss " + metric_text(number(evaluation.value("loss", Json())));
  if (evaluation.contains("token_perplexity"))
    loss += ", token_perplexity " + metric_text(number(evaluation.at("token_perplexity")));
  terminal.paragraph(loss);
  const Json metrics = evaluation.value("metrics", Json::object());
  for (const auto& [name, value] : metrics.items())
    terminal.paragraph(terminal.bold(name + " " + metric_text(number(value))));
}

}  // namespace plait::cli

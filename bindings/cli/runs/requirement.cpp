#include "bindings/cli/runs/requirement.hpp"

#include <cmath>
#include <cstdlib>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/metrics.hpp"

namespace plait::cli {
namespace {

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// The values of an evaluation by name.
Json values_of(const Json& evaluation) {
  Json values = evaluation.value("metrics", Json::object());
  for (const char* own : {"loss", "token_perplexity"})
    if (evaluation.contains(own)) values[own] = evaluation.at(own);
  return values;
}

}  // namespace

Requirement::Requirement(const std::string& text) {
  const auto fail = [&] {
    return CliError(kUsage, "[cli] --require: found '" + text +
                                "', expected a metric, one of < <= == >= > and a number, as in "
                                "--require 'accuracy>=0.97'");
  };
  const size_t at = text.find_first_of("<>=");
  if (at == text.npos) throw fail();
  const size_t end = text.find_first_not_of("<>=", at);
  name = trimmed(text.substr(0, at));
  comparison = text.substr(at, end == text.npos ? end : end - at);
  const std::string number = end == text.npos ? "" : trimmed(text.substr(end));
  char* rest = nullptr;
  value = std::strtod(number.c_str(), &rest);
  bool known = false;
  for (const char* one : {"<", "<=", "==", ">=", ">"}) known = known || comparison == one;
  if (name.empty() || !known || number.empty() || *rest != '\0' || !std::isfinite(value))
    throw fail();
}

std::string Requirement::fault(const Json& evaluation) const {
  const Json values = values_of(evaluation);
  if (!values.contains(name)) {
    std::vector<std::string> names;
    std::string list;
    for (const auto& [key, unused] : values.items()) {
      names.push_back(key);
      list += (list.empty() ? "" : ", ") + key;
    }
    const std::string near = nearest(name, names);
    throw CliError(kUsage, "[eval] --require: there is no metric '" + name + "'" +
                               (near.empty() ? "" : "; did you mean '" + near + "'?") +
                               "; there are: " + list);
  }
  const Json& json = values.at(name);
  const double found = json.is_number() ? json.get<double>() : std::nan("");
  const bool met = comparison == "<"    ? found < value
                   : comparison == "<=" ? found <= value
                   : comparison == "==" ? found == value
                   : comparison == ">=" ? found >= value
                                        : found > value;
  if (met) return "";
  return name + " is " + metric_text(found) +
         strf(", expected %s %.10g", comparison.c_str(), value);
}

}  // namespace plait::cli

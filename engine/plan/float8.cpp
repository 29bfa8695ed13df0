#include "engine/plan/float8.hpp"

#include <algorithm>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/float8.hpp"

namespace plait::plan {
namespace {

bool multiplies_float8(const Plan& plan) { return plan.experiment.precision.products == "fp8"; }

// "e4m3 x e5m2"; "off".
program::Float8Formats formats_of(std::string_view text) {
  constexpr std::string_view kBetween = " x ";
  const size_t at = text.find(kBetween);
  if (at == std::string_view::npos) return {};
  const auto format = [](std::string_view name) {
    return name == "e5m2" ? uint32_t{PLAIT_F8E5M2} : uint32_t{PLAIT_F8E4M3};
  };
  return {format(text.substr(0, at)), format(text.substr(at + kBetween.size()))};
}

bool is_left_out(const config::PrecisionConfig& precision, const std::string& parameter) {
  return std::any_of(precision.fp8_except.begin(), precision.fp8_except.end(),
                     [&](const std::string& pattern) { return glob_match(pattern, parameter); });
}

}  // namespace

void mark_float8(const Plan& plan, program::Graph& g, const std::vector<ParameterUse>& uses) {
  if (!multiplies_float8(plan)) return;
  std::set<ValueId> weights;
  for (const ParameterUse& use : uses)
    if (!is_left_out(plan.experiment.precision, use.parameter->name)) weights.insert(use.value);
  if (program::mark_products(g, weights).empty())
    fail_config(
        "[plan] precision.products = \"fp8\", but no product of a layer reads a parameter that "
        "precision.fp8.except does not name, so all products would stay as they are; leave it out");
}

void multiply_float8(const Plan& plan, program::Graph& g) {
  if (!multiplies_float8(plan)) return;
  const config::PrecisionConfig& p = plan.experiment.precision;
  program::Float8Rules rules;
  rules.forward = formats_of(p.fp8_forward);
  rules.grad_input = formats_of(p.fp8_grad_input);
  rules.grad_weight = formats_of(p.fp8_grad_weight);
  rules.by_rows = p.fp8_scaling == "row";
  program::multiply_f8(g, rules);
}

}  // namespace plait::plan

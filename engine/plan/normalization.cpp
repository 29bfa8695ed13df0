#include "engine/plan/normalization.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/dataset.hpp"
#include "engine/plan/plan_draft.hpp"
#include "engine/program/shape.hpp"

namespace plait::plan {
namespace {

using config::NormalizeConfig;

constexpr char kAll[] = "*";

bool is_numeric(const plait_field& f) {
  return program::is_float(f.shape.dtype) || f.shape.dtype == PLAIT_U8;
}

int64_t last_extent(const plait_field& f) {
  return f.shape.ndim == 0 ? 1 : f.shape.dims[f.shape.ndim - 1];
}

std::vector<double> spread(const std::vector<double>& of, int64_t columns) {
  return of.size() == 1 ? std::vector<double>(static_cast<size_t>(columns), of[0]) : of;
}

// What is wrong with an entry for that field; "": nothing.
std::string fault(const NormalizeConfig& n, const plait_field& f) {
  if (n.automatic && !is_numeric(f))
    return std::string("auto needs real numbers or u8, the field holds ") +
           program::dtype_name(f.shape.dtype);
  const auto columns = static_cast<size_t>(last_extent(f));
  for (const auto* list : {&n.mean, &n.std})
    if (list->size() > 1 && list->size() != columns)
      return strf("%s has %zu numbers, expected 1, or %zu as the field has columns",
                  list == &n.mean ? "mean" : "std", list->size(), columns);
  return "";
}

}  // namespace

const NormalizeConfig* normalize_of(const config::DatasetConfig& dataset,
                                    const plait_field& field) {
  const NormalizeConfig* all = nullptr;
  for (const NormalizeConfig& n : dataset.normalize) {
    if (n.field == field.name) return &n;
    if (n.field == kAll && field.role == PLAIT_FIELD_INPUT && is_numeric(field)) all = &n;
  }
  return all;
}

bool by_column(const NormalizeConfig& n) {
  return n.automatic || n.mean.size() > 1 || n.std.size() > 1;
}

const Normalization& find_or_add_normalization(PlanDraft& plan, const NormalizeConfig& n,
                                               const plait_field& field) {
  Normalization made;
  made.field = field.name;
  made.automatic = n.automatic;
  made.columns = n.automatic && field.shape.ndim != 1 ? 1 : last_extent(field);
  if (!n.automatic) {
    made.mean = spread(n.mean, made.columns);
    made.deviation = spread(n.std, made.columns);
    for (auto* list : {&made.mean, &made.deviation})
      for (double& v : *list) v *= n.divide;
  }
  for (const Normalization& known : plan.normalizations)
    if (known.field == made.field && known.automatic == made.automatic &&
        known.columns == made.columns && known.mean == made.mean &&
        known.deviation == made.deviation)
      return known;
  if (plan.normalizations.empty())
    plan.normalization_segment = plan.storage.add("normalization", Category::kInputs);
  const uint64_t bytes = program::bytes_of(made.columns, plan.precision.compute);
  made.mean_at = plan.storage.allocate(plan.normalization_segment, bytes);
  made.inverse_at = plan.storage.allocate(plan.normalization_segment, bytes);
  return plan.normalizations.emplace_back(std::move(made));
}

void check_normalize(const config::DatasetConfig& config, const Dataset& dataset,
                     config::Problems& problems) {
  const std::vector<plait_field>& fields = dataset.fields();
  std::vector<std::string> names;
  for (const plait_field& f : fields) names.emplace_back(f.name);
  for (const NormalizeConfig& n : config.normalize) {
    const std::string key = config.path + ".normalize." + config::toml_key(n.field);
    bool used = false;
    for (const plait_field& f : fields) {
      if (normalize_of(config, f) != &n) continue;
      used = true;
      if (const std::string what = fault(n, f); !what.empty())
        problems.add(n.origin, key, "field '" + std::string(f.name) + "': " + what,
                     "its samples are " + program::text(f.shape));
    }
    if (used || n.inherited) continue;
    if (n.field == kAll)
      problems.add(n.origin, key, "the dataset has no input of real numbers to normalise",
                   "its fields are: " + join(names));
    else
      problems.add(
          n.origin, key,
          "the dataset has no field '" + n.field + "'" + did_you_mean(nearest(n.field, names)),
          "its fields are: " + join(names));
  }
}

}  // namespace plait::plan

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

// Columns of a field that is normalised by what [data.train] has: samples of several axes have one
// mean and one deviation.
int64_t automatic_columns(const plait_field& f) { return f.shape.ndim != 1 ? 1 : last_extent(f); }

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
  made.columns = n.automatic ? automatic_columns(field) : last_extent(field);
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

namespace {

// Why numbers of [data.train] cannot normalise a field of another dataset; "": they can.
std::string fault_of_training(const Dataset& train, const plait_field& f) {
  const std::vector<plait_field>& fields = train.fields();
  const auto same = std::find_if(fields.begin(), fields.end(), [&](const plait_field& other) {
    return std::string_view(other.name) == f.name;
  });
  if (same == fields.end()) return "which has no such field";
  if (is_numeric(*same) && automatic_columns(*same) == automatic_columns(f) &&
      (same->shape.ndim == 1) == (f.shape.ndim == 1))
    return "";
  return "whose samples are " + program::text(same->shape) + ", here they are " +
         program::text(f.shape);
}

}  // namespace

void check_automatic(const PlanDraft& plan, config::Problems& problems) {
  const Dataset* train = plan.dataset("train");
  for (const auto& dataset : plan.datasets) {
    const config::DatasetConfig& config = *plan.experiment.dataset(dataset->name());
    for (const plait_field& f : dataset->fields()) {
      const NormalizeConfig* n = normalize_of(config, f);
      const bool is_read = std::any_of(
          plan.normalizations.begin(), plan.normalizations.end(),
          [&](const Normalization& one) { return one.automatic && one.field == f.name; });
      if (!train || !n || !n->automatic || !is_read || !is_numeric(f)) continue;
      if (const std::string what = fault_of_training(*train, f); !what.empty())
        problems.add(n->origin, config.path + ".normalize." + config::toml_key(n->field),
                     std::string("field '") + f.name +
                         "' is normalised by the columns of [data.train], " + what,
                     "give both samples of the same shape, or this one mean and std");
    }
  }
}

}  // namespace plait::plan

#include "engine/session/check_run.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/data/require_samples.hpp"
#include "engine/plan/check.hpp"
#include "engine/plan/field_texts.hpp"
#include "engine/runtime/backend_needs.hpp"
#include "engine/session/numerics.hpp"
#include "engine/session/weight_fit.hpp"

namespace plait::session {
namespace {

// f's error, if it has one, as a problem.
template <class F>
void add_error(config::Problems& problems, const config::Origin& origin, const std::string& key,
               F&& f) {
  try {
    f();
  } catch (const Error& e) {
    if (e.code() == PLAIT_ERR_MEMORY) throw;
    problems.add(origin, key, e.full_text(), "", e.code());
  }
}

void check_loads(const plan::Plan& plan, FileSystem& files, config::Problems& problems) {
  const auto check = [&](const config::ModelConfig& model, const config::AdapterConfig* adapter,
                         const std::string& owner, const std::string& path,
                         const config::OptionSet& keys) {
    const std::string key = owner + ".load";
    if (path.empty() || problems.touch(key)) return;
    add_error(problems, keys.origin("load"), key, [&] {
      check_weights(files, plan, {model, adapter, key, path});
    });
  };
  for (const config::ModelConfig& model : plan.experiment.models) {
    check(model, nullptr, model.path, model.load, model.keys);
    for (const config::AdapterConfig& adapter : model.adapters)
      check(model, &adapter, adapter.path, adapter.load, adapter.keys);
  }
}

// The number of classes of a field, by what the dataset says; of several columns the most.
int64_t classes_of(const plan::Dataset& d, uint32_t field) {
  constexpr int64_t kMost = 1 << 20;
  constexpr uint32_t kMostColumns = 1 << 12;
  const plait_shape& shape = d.info().fields[field].shape;
  const auto columns =
      shape.ndim == 1 ? static_cast<uint32_t>(std::min<int64_t>(shape.dims[0], kMostColumns)) : 1;
  int64_t most = 0;
  for (uint32_t k = 0; k < columns; ++k) {
    int64_t n = 0;
    while (n < kMost && d.text_of(field, PLAIT_TEXT_CLASS + k, static_cast<uint64_t>(n))) ++n;
    most = std::max(most, n);
  }
  return most;
}

// Classes of a dataset as an entry point reads them. A part of other samples may have fewer than
// it names.
void check_classes(const plan::Plan& plan, const char* entry_point, const plan::Dataset& d,
                   config::Problems& problems) {
  const plan::EntryPoint* e = plan.find_entry_point(entry_point);
  const config::DatasetConfig& config = *plan.experiment.dataset(d.name());
  if (!e || config.limit > 0 || d.text_of(0, PLAIT_TEXT_PART, 0)) return;
  for (const plan::Field& f : e->feed.fields)
    for (uint32_t i = 0; i < d.info().n_fields; ++i) {
      if (f.name != d.info().fields[i].name || f.index_ranges.empty()) continue;
      const int64_t last = classes_of(d, i) - 1;
      for (const plan::IndexRange& b : f.index_ranges) {
        if (last < b.end) continue;
        problems.add(config.origin, config.path,
                     out_of_range_text(plan, {&f, &b, last, last}, "[data." + d.name() + "]",
                                       "the last of its classes"),
                     "", PLAIT_ERR_DATA);
        return;
      }
    }
}

}  // namespace

void check_run(const plan::Plan& plan, FileSystem& files, config::Problems& problems) {
  add_error(problems, plan::origin_of(plan.experiment, "topology.backend"), "topology.backend",
            [&] { runtime::check_named_backend(plan); });
  check_loads(plan, files, problems);
  for (const auto& d : plan.datasets) {
    const config::DatasetConfig& config = *plan.experiment.dataset(d->name());
    const bool trains = d->name() == "train";
    if (trains || d->name() == "eval")
      check_classes(plan, trains ? plan::kTrainStep : plan::kEvaluate, *d, problems);
    // Of fields that the experiment tells, a host feeds the samples.
    if (trains && plan::fields_given(config).empty())
      add_error(problems, config.origin, config.path,
                [&] { data::require_samples(d->source(), d->info().n_samples); });
  }
}

}  // namespace plait::session

// Adapters by sample: each sample of a model with adapter_field takes the adapters of a name. At a
// target, adapters with equal methods and options are a group, for which wrap() is called once. A
// parameter that it requests exists once for each of them, and what it gets stands for the one that
// a sample takes (program/per_sample.hpp).
//   N samples, G adapters of a group
#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {

using program::attr;
using program::binary;

namespace {

// The number of each adapter of a group.
std::vector<int64_t> numbers_of(const config::ModelConfig& model,
                                const std::vector<const config::AdapterConfig*>& group) {
  const std::vector<std::string> names = adapter_names(model);
  std::vector<int64_t> numbers;
  for (const config::AdapterConfig* one : group)
    numbers.push_back(std::find(names.begin(), names.end(), one->name) - names.begin());
  return numbers;
}

// -1 and all numbers of adapters that are not among these.
std::vector<int64_t> others(const config::ModelConfig& model, const std::vector<int64_t>& numbers) {
  std::vector<int64_t> all;
  for (int64_t k = -1; k < static_cast<int64_t>(adapter_names(model).size()); ++k)
    if (std::find(numbers.begin(), numbers.end(), k) == numbers.end()) all.push_back(k);
  return all;
}

using TargetCounts = std::map<std::string, uint32_t>;  // PlanDraft::targets_of_adapter

// Their methods are told the same.
bool alike(const config::AdapterConfig& a, const config::AdapterConfig& b,
           const TargetCounts& counts) {
  const auto count = [&](const config::AdapterConfig& one) {
    const auto at = counts.find(key_of(one));
    return at == counts.end() ? 0 : at->second;
  };
  return a.type == b.type && count(a) == count(b) &&
         a.options.to_toml(false) == b.options.to_toml(false);
}

// In order of first appearance.
std::vector<std::vector<const config::AdapterConfig*>> groups_of(
    const std::vector<const config::AdapterConfig*>& all, const TargetCounts& counts) {
  std::vector<std::vector<const config::AdapterConfig*>> groups;
  for (const config::AdapterConfig* one : all) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return alike(*group[0], *one, counts);
    });
    if (same == groups.end())
      groups.push_back({one});
    else
      same->push_back(one);
  }
  return groups;
}

// "0 (poems), 1 (code)".
std::string numbered(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (size_t k = 0; k < names.size(); ++k)
    all.push_back(std::to_string(k) + " (" + names[k] + ")");
  return join(all);
}

// What to do where a column of a field has the name that a field should have, or "".
std::string column_text(const Dataset* data, const std::string& name) {
  for (uint32_t f = 0; data && f < data->info().n_fields; ++f)
    for (uint64_t i = 0; const char* column = data->text_of(f, PLAIT_TEXT_COLUMN, i); ++i)
      if (column == name)
        return "; '" + name + "' is a column of its field '" + data->info().fields[f].name +
               "': let the dataset make a field of integers of it, as `integers` does";
  return {};
}

}  // namespace

bool Tracer::samples_choose(const config::ModelConfig& model) const {
  return !model.adapter_field.empty() &&
         (mode_ != TraceMode::kEvaluation || plan_.experiment.evaluate.adapter.empty());
}

bool Tracer::all_take(const config::ModelConfig& model, const std::string& adapter) const {
  return model.adapter_field.empty() ||
         (!samples_choose(model) && plan_.experiment.evaluate.adapter == adapter);
}

ValueId Tracer::adapter_index(const config::ModelConfig& model) {
  const std::string& name = model.adapter_field;
  error_site_ = {model.keys.origin("adapter_field"), model.path + ".adapter_field"};
  ValueId index = source_.fields ? field_value(name) : note_poison(poison(0));
  const auto all = fields();
  const std::string source = "[data." + source_.name + "]";
  if (!index) {
    std::vector<std::string> names;
    for (const plait_field& f : all) names.emplace_back(f.name);
    fail_config(source + " has no field '" + name + "'" + did_you_mean(nearest(name, names)) +
                "; it has: " + join(names) + "; expected an integer for each sample, the number " +
                "of the adapter that it takes: " + numbered(adapter_names(model)) +
                ", or -1 for none" + column_text(plan_.dataset(source_.name), name));
  }
  if (source_.fields) {
    const plait_field& f = *std::find_if(all.begin(), all.end(),
                                         [&](const plait_field& one) { return name == one.name; });
    if (f.shape.ndim != 0 || program::is_float(f.shape.dtype))
      fail_config("field '" + name + "' of " + source + " is " + program::text(f.shape) +
                  ", expected one integer for each sample, the number of the adapter that it "
                  "takes; name such a field, or leave adapter_field out");
    index = fields_.at(name);
  }
  error_site_.reset();
  return index;
}

ValueId Tracer::takes(const config::ModelConfig& model, const std::vector<int64_t>& numbers) {
  const ValueId index = adapter_index(model);
  ValueId sum = 0;
  for (const int64_t k : numbers) {
    const ValueId is = binary(*graph_, "eq", index, graph_->constant(static_cast<double>(k)));
    sum = sum ? binary(*graph_, "add", sum, is) : is;
  }
  return sum;
}

// Whether all samples share a value: it follows from parameters and constants alone.
bool Tracer::is_shared(ValueId v) {
  if (const auto known = shared_.find(v); known != shared_.end()) return known->second;
  const int32_t producer = graph_->value(v).producer;
  bool shared = true;
  if (producer >= 0)
    for (const ValueId in : graph_->ops()[static_cast<size_t>(producer)].in)
      shared = shared && is_shared(in);
  else
    shared = std::any_of(parameters_.begin(), parameters_.end(),
                         [&](const auto& known) { return known.second == v; });
  return shared_[v] = shared;
}

void Tracer::check_by_sample(const config::ModelConfig& model, const AdapterGroup& all,
                             const plait_peft_target& target) {
  if (target.groups) {
    error_site_ = {all[0]->origin, all[0]->path};
    fail(PLAIT_ERR_UNIMPLEMENTED,
         "[plan] '" + std::string(target.name) +
             "' multiplies rows of all samples, sorted into groups: with adapter_field an adapter "
             "cannot change it; add '" +
             target.name + "' to `exclude` of '" + all[0]->name + "', or leave adapter_field of " +
             model.path + " out");
  }
  for (const ValueId v : {target.input, target.output}) {
    const plait_shape& s = graph_->shape(v);
    if (!is_shared(v) && s.ndim > 0 && s.dims[0] == feed_.batch) continue;
    error_site_ = {all[0]->origin, all[0]->path};
    fail(PLAIT_ERR_UNIMPLEMENTED,
         "[plan] '" + std::string(target.name) + "' " + (v == target.input ? "reads " : "makes ") +
             program::text(s) + ", expected values of each of the " + std::to_string(feed_.batch) +
             " samples along the first axis: with adapter_field an adapter cannot change it; add "
             "'" +
             target.name + "' to `exclude` of '" + all[0]->name +
             "', or leave "
             "adapter_field of " +
             model.path + " out");
  }
}

ValueId Tracer::adapt_by_sample(const config::ModelConfig& model, const AdapterGroup& all,
                                plait_peft_target target) {
  check_by_sample(model, all, target);
  // A sample takes one group, which draws the random numbers that it would draw alone.
  std::map<std::string, int> drawn;
  for (const AdapterGroup& group : groups_of(all, plan_.targets_of_adapter)) {
    int& streams = random_streams_[random_owner(*group[0], target)];
    streams = drawn.try_emplace(random_owner(*group[0], target), streams).first->second;
    const ValueId adapted = wrap_by_sample(model, group, target);
    // A sample with a number of no adapter at all is adapted, to what is not finite.
    const ValueId other = takes(model, others(model, numbers_of(model, group)));
    program::Dims along(graph_->shape(adapted).ndim, 1);
    along[0] = feed_.batch;
    target.output = graph_->apply1(
        "select", {program::reshaped(*graph_, other, along), target.output, adapted});
  }
  return target.output;
}

// Where each sample's adapter lies in the group: 0 for those that take another one or none, G for
// a number of no adapter.
ValueId Tracer::local_index(const config::ModelConfig& model, const AdapterGroup& group) {
  const std::vector<int64_t> numbers = numbers_of(model, group);
  ValueId place = binary(*graph_, "sub", graph_->constant(1), takes(model, others(model, {})));
  place = program::scaled(*graph_, place, static_cast<double>(group.size()));
  for (size_t k = 1; k < numbers.size(); ++k)
    place = binary(*graph_, "add", place,
                   program::scaled(*graph_, takes(model, {numbers[k]}), static_cast<double>(k)));
  return graph_->apply1("cast", {place}, {attr("dtype", static_cast<int64_t>(PLAIT_I32))});
}

ValueId Tracer::wrap_by_sample(const config::ModelConfig& model, const AdapterGroup& group,
                               const plait_peft_target& target) {
  program::PerSample own(*graph_, local_index(model, group),
                         [this](ValueId v) { return is_shared(v); });
  program::BuildHooks hooks = hooks_;
  hooks.parameter = [&](const plait_parameter& p) {
    return parameter_of_group(p, model, group, target, own);
  };
  if (hooks_.add_loss)
    hooks.add_loss = [&](const std::string& name, double factor, ValueId sum, ValueId weights) {
      note_term({group[0], "", name, factor, sum, weights, group, own.stack_of(sum),
                 own.stack_of(weights)});
    };
  hooks.apply = [&](std::string_view name, std::vector<ValueId> in, program::Attrs attrs) {
    return own.apply(name, std::move(in), std::move(attrs));
  };
  try {
    return call_wrap(*group[0], target, hooks);
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_UNIMPLEMENTED) throw;
    fail(e.code(),
         e.full_text() + "; so method '" + group[0]->type + "' of adapter '" + group[0]->name +
             "' (" + group[0]->path +
             ") does not work by sample: take another method, or leave adapter_field of " +
             model.path + " out");
  }
}

// Each adapter of the group has the parameter that it would have alone.
ValueId Tracer::parameter_of_group(const plait_parameter& p, const config::ModelConfig& model,
                                   const AdapterGroup& group, const plait_peft_target& target,
                                   program::PerSample& own) {
  static const config::LayerConfig no_ties;
  std::vector<ValueId> all;
  for (const config::AdapterConfig* one : group) {
    write_for(*one, target);
    all.push_back(parameter(p, model, no_ties));
  }
  write_for(*group[0], target);
  return own.stand_for(all);
}

// What a host or a dataset gives as numbers of adapters is compared with them as the rows of a
// table are.
void Tracer::note_adapter_ranges() {
  for (const config::ModelConfig& model : plan_.experiment.models) {
    if (model.adapter_field.empty() || !fields_.contains(model.adapter_field)) continue;
    const std::vector<std::string> names = adapter_names(model);
    IndexRange range;
    range.least = -1;
    range.end = static_cast<int64_t>(names.size());
    range.reader = range.maker = model.name;
    range.allowed =
        "the number of an adapter of '" + model.name + "': " + numbered(names) + ", or -1 for none";
    for (Field& f : feed_.fields)
      if (f.name == model.adapter_field) f.index_ranges.push_back(range);
  }
}

}  // namespace plait::plan

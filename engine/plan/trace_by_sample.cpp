// Adapters by sample: each sample of a model with adapter_field takes those of one name.
//   N samples
#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {

using program::binary;

namespace {

// "0 (poems), 1 (code)".
std::string numbered(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (size_t k = 0; k < names.size(); ++k) all.push_back(std::to_string(k) + " (" + names[k] + ")");
  return join(all);
}

}  // namespace

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
                ", or -1 for none");
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
  return sum ? sum : program::filled(*graph_, graph_->shape(index), 0);
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
    range.allowed = "the number of an adapter of '" + model.name + "': " + numbered(names) +
                    ", or -1 for none";
    for (Field& f : feed_.fields)
      if (f.name == model.adapter_field) f.index_ranges.push_back(range);
  }
}

}  // namespace plait::plan

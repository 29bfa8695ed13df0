#include "engine/plan/warnings.hpp"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "engine/base/files.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/check.hpp"
#include "engine/plan/field_texts.hpp"
#include "engine/plan/normalization.hpp"

namespace plait::plan {

namespace {

// Whether a key is given and says something else than its default, as written by `plait bind`.
bool is_changed(const config::OptionSet& set, const char* key) {
  const config::OptionValue* value = set.find(key);
  if (!value || !value->given) return false;
  const char* standard = value->declared->default_value;
  return !standard || config::value_toml(*value) != standard;
}

using Warn = std::function<void(const std::string& key, const std::string& why)>;

void warn_float8(const config::Experiment& e, bool trains, const Warn& warn) {
  const config::PrecisionConfig& p = e.precision;
  const bool only = e.generate.only && !trains, off = p.products != "fp8";
  const std::string why =
      off ? "precision.products is \"compute\""
          : "the experiment has no [data.train], and tokens are computed in the type of "
            "precision.compute";
  if (only && !off) warn("precision.products", why);
  if (only || off)
    for (const auto& [path, set] : e.sections)
      for (const char* key : {"scaling", "forward", "grad_input", "grad_weight", "except"})
        if (path == "precision.fp8" && is_changed(set, key))
          warn("precision.fp8." + std::string(key), why);
  if (!only && !off && p.fp8_forward == "off" && p.fp8_grad_input == "off" &&
      p.fp8_grad_weight == "off")
    warn("precision.products", "all three products of [precision.fp8] are \"off\"");
}

}  // namespace

void warn_ignored(const config::Experiment& e, bool trains, Log* log) {
  if (!log) return;
  const Warn warn = [&](const std::string& key, const std::string& why) {
    log->warn(origin_of(e, key).text() + ": " + key + " has no effect: " + why);
  };
  const config::TopologyConfig& t = e.topology;
  if (t.pipeline == 1 && t.virtual_stages > 1)
    warn("topology.virtual_stages", "topology.pipeline is 1");
  if (t.pipeline == 1 && !t.stages.empty()) warn("topology.stages", "topology.pipeline is 1");
  if (t.data == 1 && t.zero > 0) warn("topology.zero", "topology.data is 1");
  if (t.data > 1 && t.zero == 3 && e.precision.split_master)
    warn("precision.split_master", "with topology.zero = 3 there are no copies of weights");
  const config::PrecisionConfig& p = e.precision;
  if (p.frozen == "compute" && (p.compute == "f32" || p.compute == "f64"))
    warn("precision.frozen", "precision.compute is \"" + p.compute + "\", as all weights are kept");
  warn_float8(e, trains, warn);
  if (e.dataset("eval") || e.generate.only) return;
  if (e.evaluate.every > 0) warn("evaluate.every", "there is no [data.eval]");
  for (const config::ModelConfig& model : e.models)
    for (const config::MetricConfig& m : model.metrics)
      if (!m.train || model.frozen)
        log->warn(m.origin.text() + ": " + m.path +
                  " has no effect in a run: it is computed in evaluations alone, and there is no "
                  "[data.eval]");
}

void warn_large_batch(const config::Experiment& e, int64_t samples, Log* log) {
  if (!log || samples == 0 || e.batch.global <= samples) return;
  log->warn(origin_of(e, "batch.global").text() + ": batch.global is " +
            std::to_string(e.batch.global) + ", but [data.train] has " + std::to_string(samples) +
            " samples: each step pads its batch with " + std::to_string(e.batch.global - samples) +
            " empty samples; use batch.global = " + std::to_string(samples) + " or less");
}

namespace {

// A plugin that was not loaded has told no kinds of items, and a note has none. A name that begins
// with a kind, as the names of our plugins and of their files do, tells it: "layer-device-norm",
// "plait-layer-dense.so". Any other, such as "acme-npu", may be that of a device.
bool may_be_device(const plugin::LoadEntry& entry) {
  constexpr std::string_view kFile = "plait-";
  constexpr std::string_view kOthers[] = {"comm",  "data",     "dataset",  "format", "kernel",
                                          "layer", "loss",     "metric",   "op",     "optimizer",
                                          "peft",  "schedule", "tokenizer"};
  const std::string name = entry.name.empty() ? name_of(entry.path) : entry.name;
  std::string_view kind = name;
  if (starts_with(kind, kFile)) kind.remove_prefix(kFile.size());
  const size_t end = kind.find('-');
  return end == kind.npos || std::find(std::begin(kOthers), std::end(kOthers),
                                       kind.substr(0, end)) == std::end(kOthers);
}

}  // namespace

void warn_of_other_devices(const Plan& plan, Log* log) {
  if (!log) return;
  std::vector<std::string> lost;  // by name, or by path where no name could be read
  for (const plugin::LoadEntry& entry : plan.registry->report().entries)
    if (entry.outcome == plugin::Outcome::kRejected && may_be_device(entry))
      lost.push_back(entry.name.empty() ? "'" + entry.path + "'" : entry.name);
  if (lost.empty()) return;
  constexpr size_t kMost = 3;
  if (const size_t more = lost.size() - std::min(lost.size(), kMost); more > 0) {
    lost.resize(kMost);
    lost.back() += " and " + std::to_string(more) + " more";
  }
  log->warn("[plan] run.device = \"auto\" takes '" + plan.device +
            "'; a better device may be in plugins that could not be loaded: " + join(lost) +
            "; mend what the warnings above say, or name the device in run.device");
}

void warn_many_threads(const config::Experiment& e, int64_t used, Log* log) {
  const int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (!log || cores < 1 || std::min<int64_t>(e.run.threads, used) <= cores) return;
  log->warn(origin_of(e, "run.threads").text() + ": run.threads is " +
            std::to_string(e.run.threads) + ", and this machine has " + std::to_string(cores) +
            " cores: threads that share a core wait for each other in every op; use " +
            std::to_string(cores) + " or fewer, or 0");
}

void warn_states(const Plan& plan, Log* log) {
  if (!log || plan.rank != 0 || !plan.precision.low_states || plan.groups.empty()) return;
  const auto is_low = [](const TensorState& s) { return s.shape.dtype == kLowState; };
  const bool of_tensors = std::any_of(
      plan.parameters.begin(), plan.parameters.end(),
      [&](const Parameter& p) { return std::any_of(p.states.begin(), p.states.end(), is_low); });
  bool may = false, of_groups = false;
  for (const ParameterGroup& group : plan.groups) {
    may = may || group.low_states;
    of_groups = of_groups || (group.low_states && !group.states.empty());
  }
  if (of_tensors || of_groups) return;
  if (!may && plan.grid.pipeline() > 1) return;  // another stage may have such weights
  log->warn(origin_of(plan.experiment, "precision.states").text() +
            ": precision.states has no effect: " +
            (may ? "the optimizer keeps no states of the shape of a weight"
                 : "no weight that is trained has two or more dimensions"));
}

void warn_long_samples(const Plan& plan, Log* log) {
  if (!log || plan.rank != 0) return;
  for (const config::ModelConfig& m : plan.experiment.models) {
    const int64_t most = m.keys.get_int("context_length");
    const auto warn = [&](const config::Origin& origin, const std::string& what, int64_t tokens) {
      if (most == 0 || tokens <= most) return;
      log->warn(origin.text() + ": " + what + " " + std::to_string(tokens) + " tokens, and " +
                m.path + ".context_length is " + std::to_string(most) + " (" +
                m.keys.origin("context_length").text() +
                "): the model has learned nothing of the places behind; use " +
                std::to_string(most) + " or fewer, or raise it if the model is to learn them");
    };
    if (const config::DatasetConfig* train = plan.experiment.dataset("train"))
      warn(train->origin, "samples of [data.train] have", plan.tokens_per_sample);
    warn(origin_of(plan.experiment, "generate.length"), "generate.length is",
         plan.experiment.generate.length);
  }
}

namespace {

int64_t number_of(const config::OptionSet& options, const char* name) {
  const config::OptionValue* value = options.find(name);
  return value && value->declared->type == PLAIT_OPT_INT ? value->integer : 0;
}

// The placeholders of each sample: of a dataset, or the fewest of the datasets that it is made of.
int64_t placeholders_of(const config::ItemConfig& item) {
  std::vector<int64_t> inner;
  for (const config::OptionValue& value : item.options.values())
    if (config::is_item_type(value.declared->type) && value.declared->choices &&
        std::string_view(value.declared->choices) == PLAIT_KIND_DATASET)
      for (const auto& part : value.items) inner.push_back(placeholders_of(*part));
  return inner.empty() ? number_of(item.options, "placeholders")
                       : *std::min_element(inner.begin(), inner.end());
}

}  // namespace

void warn_overwritten(const config::Experiment& e, Log* log) {
  if (!log) return;
  for (const config::ModelConfig& model : e.models) {
    const std::string* told = nullptr;  // one entry of several names is several adapters
    for (const config::AdapterConfig& adapter : model.adapters) {
      if (told && *told == adapter.path) continue;
      told = &adapter.path;
      const int64_t n = number_of(adapter.options, "n_tokens");
      for (const config::DatasetConfig& data : e.datasets) {
        const int64_t there = placeholders_of(data);
        if (n <= there || !fields_given(data).empty()) continue;
        const std::string first =
            n == 1 ? "first token" : strf("first %lld tokens", static_cast<long long>(n));
        log->warn(adapter.origin.text() + ": " + adapter.path + " (" + adapter.type +
                  ") puts its vectors in place of the " + first + " of each sample, and [" +
                  data.path + "] has " +
                  (there ? "placeholders for " + std::to_string(there) : "no placeholders") +
                  (data.options.find("placeholders")
                       ? ": the text there is lost; set placeholders = " + std::to_string(n)
                       : ": the text there is lost unless its tokens are placeholders"));
      }
    }
  }
}

namespace {

// Whether an option of the dataset, or of one inside it, is the name of the field: `by = "key"`.
bool is_named(const config::ItemConfig& item, const std::string& field) {
  const auto& values = item.options.values();
  return std::any_of(values.begin(), values.end(), [&](const config::OptionValue& v) {
    return v.text == field || std::find(v.texts.begin(), v.texts.end(), field) != v.texts.end() ||
           std::any_of(v.items.begin(), v.items.end(),
                       [&](const auto& inner) { return is_named(*inner, field); });
  });
}

}  // namespace

void warn_unread_fields(const Plan& plan, const Tracer& train, const Tracer& evaluation, Log* log) {
  const Dataset* dataset = plan.dataset("train");
  if (!log || !dataset) return;
  const config::DatasetConfig& config = *plan.experiment.dataset("train");
  for (const plait_field& f : dataset->fields()) {
    const std::string name(f.name);
    // Samples have targets, whether they are learned or not.
    if (f.role != PLAIT_FIELD_INPUT || train.field(f.name) != 0 || evaluation.field(f.name) != 0 ||
        is_named(config, name))
      continue;
    log->warn(config.origin.text() + ": nothing reads the field '" + name +
              "' of [data.train], so it has no effect; name it in `from`, or in the option of a "
              "layer that takes such a field (documents, positions), or leave it out");
  }
}

}  // namespace plait::plan

#include "engine/config/schema.hpp"

#include <plait/dataset.h>
#include <plait/device.h>
#include <plait/layer.h>
#include <plait/optimizer.h>

#include <array>
#include <string>

#include "engine/base/error.hpp"

namespace plait::config {
namespace {

constexpr plait_option option(uint32_t type, const char* name, const char* default_value,
                              const char* help) {
  return {sizeof(plait_option), name, type, 0, default_value, 0, 0, nullptr, nullptr, help};
}
constexpr plait_option flag(const char* n, const char* d, const char* h) {
  return option(PLAIT_OPT_BOOL, n, d, h);
}
constexpr plait_option real(const char* n, const char* d, const char* h) {
  return option(PLAIT_OPT_REAL, n, d, h);
}
constexpr plait_option text(const char* n, const char* d, const char* h) {
  return option(PLAIT_OPT_TEXT, n, d, h);
}
constexpr plait_option texts(const char* n, const char* d, const char* h) {
  return option(PLAIT_OPT_TEXTS, n, d, h);
}
constexpr plait_option integers(const char* n, const char* d, const char* h) {
  return option(PLAIT_OPT_INTS, n, d, h);
}
constexpr plait_option choice(const char* n, const char* d, const char* choices, const char* h) {
  plait_option o = text(n, d, h);
  o.choices = choices;
  return o;
}
constexpr plait_option at_least(plait_option o, double min) {
  o.min = min;
  o.flags |= PLAIT_OPT_HAS_MIN;
  return o;
}
constexpr plait_option at_most(plait_option o, double max) {
  o.max = max;
  o.flags |= PLAIT_OPT_HAS_MAX;
  return o;
}
constexpr plait_option above(plait_option o, double min) {
  o = at_least(o, min);
  o.flags |= PLAIT_OPT_MIN_EXCLUSIVE;
  return o;
}
constexpr plait_option count(const char* n, const char* d, double min, const char* unit,
                             const char* h) {
  plait_option o = at_least(option(PLAIT_OPT_INT, n, d, h), min);
  o.unit = unit;
  return o;
}

constexpr plait_option kRun[] = {
    text("name", "\"run\"", "names the run's folder and its metrics"),
    count("steps", "0", 0, "steps", "length of the run; 0: `epochs` says it"),
    count("epochs", "0", 0, "epochs", "length of the run; 0: `steps` says it"),
    count("seed", "42", 0, nullptr, "decides initial values, order of samples and dropout"),
    text("out", "\"runs\"", "folder in which the run's own folder is made"),
    text("device", "\"auto\"", "device to compute on; auto: the best there is"),
    at_most(count("threads", "0", 0, "threads", "threads that compute; 0: all cores"), 4096),
    count("log_every", "1", 1, "steps", "a line of metrics every so many steps"),
    flag("progress", "true", "show a progress bar on a terminal"),
    choice("resume", "\"never\"", "auto|never|must",
           "continue from the newest checkpoint: if there is one, never, or fail"),
};
constexpr plait_option kTopology[] = {
    count("data", "1", 1, "ranks", "replicas that share the batch"),
    count("tensor", "1", 1, "ranks", "ranks that share each layer"),
    count("pipeline", "1", 1, "ranks", "ranks that share the list of layers"),
    choice("schedule", "\"1f1b\"", "gpipe|1f1b|interleaved|zero_bubble",
           "in which order pipeline ranks work on the micro-batches of a step"),
    count("virtual_stages", "1", 1, "stages",
          "pipeline stages on each rank; more than 1 with interleaved"),
    integers("stages", "[]", "layers of each stage, one after the other; empty: see `balance`"),
    choice("balance", "\"cost\"", "cost|count",
           "what stages have alike: operations of their layers, or the number of layers"),
    at_most(
        count("zero", "0", 0, nullptr,
              "ZeRO stage: shard 1 optimizer states, 2 also gradients, 3 also parameters across "
              "replicas"),
        3),
    at_least(real("bucket_mib", "8.0", "MiB of gradients that replicas reduce in one collective"),
             0.001),
    choice("recompute", "\"none\"", "none|layer|stage|budget",
           "activation checkpointing: none; values used only inside a layer; every value of a "
           "stage; or the cheapest values until `recompute_budget` is met"),
    at_least(real("recompute_budget", "0.0", "MiB of activations that a program may hold"), 0),
    text("backend", "\"auto\"",
         "communication backend; auto picks the fastest that connects all ranks"),
    at_least(real("timeout", "60.0",
                  "seconds for one collective, and of silence before a rank counts as lost"),
             0.01),
    at_least(real("connect_timeout", "60.0", "seconds for all ranks to arrive"), 0.01),
};
constexpr plait_option kBatch[] = {
    count("global", nullptr, 1, "samples", "samples per step, over all ranks"),
    count("micro", "0", 0, "samples", "samples per pass of one rank; 0: the rank's whole share"),
    count("eval", "0", 0, "samples",
          "samples per pass of an evaluation, over all ranks; 0: `micro` for each replica"),
    count("accumulation", "0", 0, "passes",
          "micro-batches of a step on each replica; 0: as many as `global` and `micro` make"),
};
constexpr plait_option kPrecision[] = {
    choice("compute", "\"f32\"", "f32|f64",
           "type of layers, parameters, gradients, optimizer states and losses; f64 is slow"),
};
constexpr plait_option kEvaluate[] = {
    count("every", "0", 0, "steps", "evaluate every so many steps; 0: only at the end"),
    count("batches", "0", 0, "batches", "length of an evaluation; 0: all samples"),
};
constexpr plait_option kEarlyStop[] = {
    text("metric", "\"\"", "metric of the evaluation to watch; empty: no early stopping"),
    count("patience", "0", 0, "evaluations",
          "evaluations without improvement before the run stops"),
    at_least(real("min_delta", "0.0", "least change that counts as an improvement"), 0),
};
constexpr plait_option kCheckpoint[] = {
    count("every", "0", 0, "steps", "save every so many steps; 0: only at the end"),
    count("keep", "3", 1, "checkpoints", "newest checkpoints that stay"),
    flag("at_end", "true", "save when the run ends"),
    flag("background", "true",
         "steps go on while a save of `every` is written, from a copy in host memory"),
};
constexpr plait_option kGuard[] = {
    count("nonfinite_limit", "10", 1, "steps",
          "skipped steps in a row, for values that are not finite, that stop the run"),
};
constexpr plait_option kPlugins[] = {
    texts("paths", "[]", "plugin files, or folders of them, searched first; relative to this file"),
    texts("allow", "[]", "names of the plugins that may be loaded; empty: all"),
};

const std::array<Section, 9> kSections = {{
    {"run", "the run itself", OptionView(kRun)},
    {"topology", "ranks; their product is the number of processes", OptionView(kTopology)},
    {"batch", "how many samples make a step", OptionView(kBatch)},
    {"precision", "number formats", OptionView(kPrecision)},
    {"evaluate", "measuring on held-out data", OptionView(kEvaluate)},
    {"evaluate.early_stop", "stopping when a metric no longer improves", OptionView(kEarlyStop)},
    {"checkpoint", "saving", OptionView(kCheckpoint)},
    {"guard", "what stops a run that goes wrong", OptionView(kGuard)},
    {"plugins", "where items come from", OptionView(kPlugins)},
}};

constexpr plait_option kLayer[] = {
    text("type", nullptr, "layer item"),
    text("name", "\"\"",
         "name within the model, part of its parameters' names; empty: type and number"),
    texts("from", "[]", "values to read, by name; empty: what the layer before wrote"),
    texts("as", "[]", "names for what it writes, for others to read"),
    choice("parallel", "\"none\"", "none|column|row", "how tensor parallelism splits it"),
};
constexpr plait_option kLoss[] = {
    text("type", nullptr, "loss item"),
    text("name", "\"\"", "name of its metric; empty: its type"),
    texts("from", "[]",
          "values to read, by name; empty: the model's output and the first target field"),
    real("weight", "1.0", "factor of this loss in the sum"),
};
constexpr plait_option kMetric[] = {
    text("type", nullptr, "metric item"),
    text("name", "\"\"", "name of its metric; empty: its type"),
    texts("from", "[]",
          "values to read, by name; empty: the model's output and the first target field"),
};
constexpr plait_option kOptimizer[] = {
    text("type", nullptr, "optimizer item"),
    at_least(real("learning_rate", "0.0",
                  "learning rate before the schedule; the item has a default of its own"),
             0),
    at_least(real("weight_decay", "0.0", "weight decay; the item has a default of its own"), 0),
    at_least(real("clip_grad_norm", "0.0", "largest global norm of the gradient; 0: no clipping"),
             0),
};
constexpr plait_option kSchedule[] = {
    text("type", nullptr, "schedule item"),
};
constexpr plait_option kGroup[] = {
    texts("match", nullptr,
          "patterns of full parameter names; * and ?; a parameter belongs to one group at most, "
          "and to "
          "the optimizer's own settings when none matches"),
    at_least(real("learning_rate", "0.0", "learning rate; the optimizer's when left out"), 0),
    at_least(real("weight_decay", "0.0", "weight decay; the optimizer's when left out"), 0),
    flag("frozen", "false", "true: these parameters stay as they are"),
};
constexpr plait_option kDataset[] = {
    text("type", nullptr, "dataset item"),
    flag("shuffle", "false",
         "visit the samples in a new order each epoch; true for [data.train] when left out"),
    at_most(count("prefetch", "-1", -1, "batches",
                  "batches read ahead; 0: none, -1: 2 to 32, as many as fit in 8 MiB"),
            1024),
    count("limit", "0", 0, "samples", "use only the first samples; 0: all"),
};
constexpr plait_option kNormalize[] = {
    above(real("divide", "1.0", "y = (x / divide - mean) / std"), 0),
    real("mean", "0.0", "see `divide`"),
    above(real("std", "1.0", "see `divide`"), 0),
};
constexpr plait_option kModel[] = {
    flag("frozen", "false", "true: runs along, learns nothing"),
    option(PLAIT_OPT_PATH, "load", "\"\"", "weights to begin with; empty: initial values"),
};

}  // namespace

std::span<const Section> sections() { return kSections; }

const Section& section(std::string_view path) {
  for (const Section& s : kSections)
    if (path == s.path) return s;
  fail_internal("[config] there is no section '" + std::string(path) + "'");
}

OptionView layer_keys() { return OptionView(kLayer); }
OptionView loss_keys() { return OptionView(kLoss); }
OptionView metric_keys() { return OptionView(kMetric); }
OptionView optimizer_keys() { return OptionView(kOptimizer); }
OptionView schedule_keys() { return OptionView(kSchedule); }
OptionView group_keys() { return OptionView(kGroup); }
OptionView dataset_keys() { return OptionView(kDataset); }
OptionView normalize_keys() { return OptionView(kNormalize); }
OptionView model_keys() { return OptionView(kModel); }

std::vector<std::string_view> reserved_keys(std::string_view kind) {
  struct Reserved {
    std::string_view kind;
    OptionView keys;
    std::vector<std::string_view> tables;
  };
  const Reserved all[] = {
      {PLAIT_KIND_LAYER, layer_keys(), {"tie"}},
      {PLAIT_KIND_LOSS, loss_keys(), {}},
      {PLAIT_KIND_METRIC, metric_keys(), {}},
      {PLAIT_KIND_OPTIMIZER, optimizer_keys(), {"schedule", "groups", "frozen"}},
      {PLAIT_KIND_SCHEDULE, schedule_keys(), {}},
      {PLAIT_KIND_DATASET, dataset_keys(), {"normalize"}},
  };
  for (const Reserved& one : all) {
    if (one.kind != kind) continue;
    std::vector<std::string_view> names = one.tables;
    for (uint32_t i = 0; i < one.keys.size(); ++i)
      if (one.keys[i].name != std::string_view("parallel")) names.emplace_back(one.keys[i].name);
    return names;
  }
  return {};
}

}  // namespace plait::config

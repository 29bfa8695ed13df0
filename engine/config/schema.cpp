#include "engine/config/schema.hpp"

#include <plait/dataset.h>
#include <plait/device.h>
#include <plait/layer.h>
#include <plait/optimizer.h>

#include <array>
#include <string>

#include "engine/base/error.hpp"
#include "kit/option_decl.hpp"

namespace plait::config {
namespace {

using namespace kit;  // declarations

constexpr plait_option count(const char* n, const char* d, double min, const char* unit,
                             const char* h) {
  plait_option o = at_least(int_option(n, d, h), min);
  o.unit = unit;
  return o;
}

constexpr plait_option kRun[] = {
    text_option("name", "\"run\"", "name of the run and of its folder"),
    count("steps", "0", 0, "steps", "length of the run; 0: set by `epochs`"),
    count("epochs", "0", 0, "epochs", "length of the run; 0: set by `steps`"),
    count("seed", "42", 0, nullptr, "seed of initial values, sample order and dropout"),
    text_option("out", "\"runs\"", "folder that contains the run directories"),
    text_option("device", "\"auto\"", "device to compute on; auto: the best available"),
    at_most(count("threads", "0", 0, "threads", "compute threads; 0: one per available core"),
            4096),
    count("log_every", "1", 1, "steps", "write a line of metrics every so many steps"),
    bool_option("progress", "true", "show a progress bar on a terminal"),
    choice_option(
        "resume", "\"never\"", "auto|never|must",
        "resume from the newest checkpoint: auto if there is one, never, or must (fails without "
        "one)"),
};
constexpr plait_option kTopology[] = {
    count("data", "1", 1, "ranks", "replicas; each computes its part of the batch"),
    count("tensor", "1", 1, "ranks",
          "tensor-parallel ranks; layers with `parallel` are sharded over them"),
    bool_option(
        "sequence", "false",
        "sequence parallelism: between layers with `parallel`, tensor ranks hold and compute 1/T "
        "of the rows each, where T divides their number"),
    count("pipeline", "1", 1, "ranks",
          "pipeline ranks; the layers are divided into stages over them"),
    choice_option("schedule", "\"1f1b\"", "gpipe|1f1b|interleaved|zero_bubble",
                  "pipeline schedule: order of the forward and backward passes of a step"),
    count("virtual_stages", "1", 1, "stages",
          "pipeline stages per rank; more than 1 only with interleaved"),
    ints_option("stages", "[]", "number of layers of each stage, in order; empty: see `balance`"),
    choice_option("balance", "\"cost\"", "cost|count",
                  "balance stages by the FLOPs of their layers or by the number of layers"),
    at_most(
        count("zero", "0", 0, nullptr,
              "ZeRO stage: shard 1 optimizer states, 2 also gradients, 3 also parameters across "
              "replicas"),
        3),
    at_least(
        real_option("bucket_mib", "8.0", "MiB of gradients that replicas reduce in one collective"),
        0.001),
    choice_option(
        "recompute", "\"none\"", "none|layer|stage|budget",
        "activation checkpointing: none; values used only inside a layer; every value of a "
        "stage; or the cheapest values until `recompute_budget` is met"),
    at_least(real_option("recompute_budget", "0.0", "MiB of activations that a program may hold"),
             0),
    text_option("backend", "\"auto\"",
                "communication backend; auto picks the fastest that connects all ranks"),
    at_least(real_option("timeout", "60.0",
                         "seconds for one collective, and of silence before a rank counts as lost"),
             0.01),
    at_least(real_option("connect_timeout", "60.0", "seconds for all ranks to connect"), 0.01),
};
constexpr plait_option kBatch[] = {
    count("global", nullptr, 1, "samples", "samples per step, over all ranks"),
    count("micro", "0", 0, "samples",
          "samples per micro-batch of a replica; 0: derived from `global` and `accumulation`"),
    count("eval", "0", 0, "samples",
          "samples per evaluation batch, over all replicas; 0: `micro` per replica"),
    count("accumulation", "0", 0, "passes",
          "micro-batches per step on each replica; 0: derived from `global` and `micro`"),
};
constexpr plait_option kPrecision[] = {
    choice_option(
        "compute", "\"f32\"", "f32|f64",
        "type of layers, parameters, gradients, optimizer states and losses; f64 is slow"),
};
constexpr plait_option kEvaluate[] = {
    count("every", "0", 0, "steps", "evaluate every so many steps; 0: only at the end"),
    count("batches", "0", 0, "batches", "batches per evaluation; 0: all samples"),
};
constexpr plait_option kEarlyStop[] = {
    text_option("metric", "\"\"", "metric of the evaluation to watch; empty: no early stopping"),
    count("patience", "0", 0, "evaluations",
          "evaluations without improvement before the run stops"),
    at_least(real_option("min_delta", "0.0", "smallest change that counts as an improvement"), 0),
};
constexpr plait_option kCheckpoint[] = {
    count("every", "0", 0, "steps", "save every so many steps; 0: only at the end of the run"),
    count("keep", "3", 1, "checkpoints", "number of newest checkpoints to keep"),
    bool_option("at_end", "true", "save at the end of the run"),
    bool_option("background", "true",
                "continue training while a save of `every` is written, from a copy in host memory"),
};
constexpr plait_option kGuard[] = {
    count("nonfinite_limit", "10", 1, "steps",
          "stop the run after this many skipped steps in a row; a step with non-finite values is "
          "skipped"),
};
constexpr plait_option kPlugins[] = {
    texts_option("paths", "[]",
                 "plugin files or folders of plugins, searched first; relative to this file"),
    texts_option("allow", "[]", "names of the plugins that may be loaded; empty: all"),
};

const std::array<Section, 9> kSections = {{
    {"run", "name, length and seed of the run", OptionView(kRun)},
    {"topology", "layout of ranks; data * tensor * pipeline is the number of processes",
     OptionView(kTopology)},
    {"batch", "samples per step", OptionView(kBatch)},
    {"precision", "number formats", OptionView(kPrecision)},
    {"evaluate", "evaluation on [data.eval]", OptionView(kEvaluate)},
    {"evaluate.early_stop", "stop when a metric no longer improves", OptionView(kEarlyStop)},
    {"checkpoint", "checkpoints", OptionView(kCheckpoint)},
    {"guard", "conditions that stop a failing run", OptionView(kGuard)},
    {"plugins", "plugins to load", OptionView(kPlugins)},
}};

constexpr plait_option kLayer[] = {
    text_option("type", nullptr, "layer item"),
    text_option("name", "\"\"",
                "name of the layer, part of its parameters' names; empty: type and number"),
    texts_option("from", "[]",
                 "names of the values to read; empty: the output of the previous layer"),
    texts_option("as", "[]", "names of the outputs, for `from` of other layers"),
    choice_option("parallel", "\"none\"", "none|column|row",
                  "how tensor parallelism shards the layer"),
};
constexpr plait_option kLoss[] = {
    text_option("type", nullptr, "loss item"),
    text_option("name", "\"\"", "name of its metric; empty: its type"),
    texts_option(
        "from", "[]",
        "names of the values to read; empty: the model's output and the first target field"),
    real_option("weight", "1.0", "weight of this loss in the sum of losses"),
};
constexpr plait_option kMetric[] = {
    text_option("type", nullptr, "metric item"),
    text_option("name", "\"\"", "name of its metric; empty: its type"),
    texts_option(
        "from", "[]",
        "names of the values to read; empty: the model's output and the first target field"),
};
constexpr plait_option kOptimizer[] = {
    text_option("type", nullptr, "optimizer item"),
    at_least(
        real_option(
            "learning_rate", "0.0",
            "base learning rate, multiplied by the schedule; each optimizer has its own default"),
        0),
    at_least(real_option("weight_decay", "0.0", "weight decay; each optimizer has its own default"),
             0),
    at_least(
        real_option("clip_grad_norm", "0.0", "maximum global norm of the gradient; 0: no clipping"),
        0),
};
constexpr plait_option kSchedule[] = {
    text_option("type", nullptr, "schedule item"),
};
constexpr plait_option kGroup[] = {
    texts_option(
        "match", nullptr,
        "patterns of full parameter names, with * and ?; a parameter may match at most one group; "
        "without a match it uses the optimizer's own settings"),
    at_least(real_option("learning_rate", "0.0", "learning rate; default: the optimizer's"), 0),
    at_least(real_option("weight_decay", "0.0", "weight decay; default: the optimizer's"), 0),
    bool_option("frozen", "false", "true: these parameters are never updated"),
    bool_option(
        "elementwise", "false",
        "true: the optimizer's element-wise rule, where it has another one for whole tensors"),
};
constexpr plait_option kDataset[] = {
    text_option("type", nullptr, "dataset item"),
    bool_option("shuffle", "false",
                "shuffle the samples each epoch; default for [data.train]: true"),
    at_most(count("prefetch", "-1", -1, "batches",
                  "batches to read ahead; 0: none; -1: as many as fit in 8 MiB, 2 to 32"),
            1024),
    count("limit", "0", 0, "samples", "number of samples to use, from the first; 0: all"),
};
constexpr plait_option kNormalize[] = {
    above(real_option("divide", "1.0", "y = (x / divide - mean) / std"), 0),
    real_option("mean", "0.0", "see `divide`"),
    above(real_option("std", "1.0", "see `divide`"), 0),
};
constexpr plait_option kModel[] = {
    bool_option("frozen", "false", "true: used for inference only, never updated"),
    path_option("load", "\"\"",
                "weights to start from: a safetensors file, a checkpoint or a run directory; "
                "empty: initial values"),
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
      {PLAIT_KIND_OPTIMIZER, optimizer_keys(), {"schedule", "groups", "frozen", "elementwise"}},
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

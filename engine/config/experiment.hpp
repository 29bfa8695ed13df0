// An experiment, typed and checked, as the rest of the engine reads it. Numbers are inside the
// ranges that schema.cpp and schema_items.cpp declare.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/catalog.hpp"
#include "engine/config/document.hpp"
#include "engine/config/option_set.hpp"

namespace plait::config {

struct RunConfig {
  std::string name;
  int64_t steps = 0, epochs = 0;  // both 0: the host decides when to stop; both: check_length()
  int64_t seed = 0;
  std::string out;
  std::string device;           // "auto" or a device item
  int64_t threads = 0;          // 0: all cores
  double device_timeout = 300;  // seconds of one wait for a device that records
  double plugin_timeout = 0;    // seconds of one call of a plugin; 0: no limit
  int64_t log_every = 1;
  std::string log_level;               // of the log files: "debug", "info", "warning", "error"
  std::string rank_metrics;            // "none", "all" or an axis: who writes metrics of its own
  std::vector<int64_t> metrics_ranks;  // who writes them besides
  double peak_tflops = 0;              // of one rank's device; 0: what the device says
  bool progress = true;
  std::string resume;  // "auto", "never", "must"
  std::string from;    // checkpoint that a new run continues; empty: none
  bool from_position = true;
};

struct TopologyConfig {
  int64_t data = 1, tensor = 1, pipeline = 1;
  std::string schedule;         // of the pipeline: "gpipe", "1f1b", "interleaved", "zero_bubble"
  int64_t virtual_stages = 1;   // stages per pipeline rank
  std::vector<int64_t> stages;  // layers of each stage; empty: `balance` decides
  std::string balance;          // "cost", "count"
  int64_t zero = 0;             // ZeRO stage, 0 to 3
  bool sequence = false;        // sequence parallelism along the tensor axis
  std::string recompute;        // "cheap", "none", "layer", "stage", "budget"
  double recompute_budget = 0;  // MiB
  double recompute_flops = 0;   // of products for each element, with "cheap"
  double bucket_mib = 8;        // MiB
  double chunk_mib = 64;        // MiB; 0: no chunks
  int64_t chunk_rows = 256;     // of a chunk at least
  std::string backend;          // "auto" or a comm item
  double timeout = 60;          // seconds
  double connect_timeout = 60;
  int64_t ranks() const { return data * tensor * pipeline; }
};

// Missing sizes are derived here. If they do not fit each other or the number of replicas they stay
// 0, and no plan is made.
struct BatchConfig {
  int64_t global = 0;
  int64_t micro = 0;         // global / topology.data / accumulation
  int64_t eval = 0;          // micro * topology.data; a multiple of the latter
  int64_t accumulation = 0;  // micro-batches of a step: global / topology.data / micro
};

struct PrecisionConfig {
  std::string compute;
  std::string residual;  // "f32" or "compute"
  // [precision.scale]: the loss scale of f16.
  double scale_initial = 65536, scale_factor = 2, scale_min = 1;
  int64_t scale_window = 1000;  // steps
  int64_t scale_hysteresis = 2;
  bool scale_consecutive = false;
  bool tf32 = false;               // products of f32 round their operands where the device can
  bool tune = false;               // the algorithms of products are chosen by measuring
  bool library_attention = false;  // attention goes to a library of the device where one takes it
  std::string products;            // "compute" or "fp8"
  // [precision.fp8]: formats of the two operands, "e4m3 x e5m2", or "off".
  std::string fp8_forward, fp8_grad_input, fp8_grad_weight;
  std::string fp8_scaling;              // "tensor" or "row"
  std::vector<std::string> fp8_except;  // patterns of names of parameters; * and ?
  bool master = true;  // weights of 16 bits are copies of f32 ones; false: there are no others
  std::string states;  // "f32" or "bf16": how optimizers keep what they know of weights
  std::string frozen;  // "master", "compute", "int8" or "nf4": how frozen weights are kept
  bool split_master = false;  // the f32 ones lie as that copy and the 16 bits that it lacks
};

struct EvaluateConfig {
  int64_t every = 0;        // steps; 0: only at the end
  int64_t batches = 0;      // 0: all
  std::string outputs;      // "auto", "all", "none"
  std::string adapter;      // that all samples take, where samples choose; "": they choose
  std::string stop_metric;  // "" : no early stopping
  int64_t patience = 0;
  double min_delta = 0;
};

// Statistics of tensors while training.
struct StatisticsConfig {
  int64_t every = 0;                 // steps; 0: none
  std::vector<std::string> of;       // "parameters", "gradients", "activations", ...
  std::vector<std::string> match;    // patterns of names of parameters and layers; * and ?
  std::vector<std::string> figures;  // "mean", ...; "all"
};

// What a run writes for Weights & Biases.
struct WandbConfig {
  bool write = false;
  std::string project, entity, group;  // project "": the first part of run.name
};

// Generation of tokens with a KV cache.
struct GenerateConfig {
  int64_t slots = 0;    // sequences at a time; 0: the plan has no programs for it
  int64_t length = 0;   // tokens of a sequence, its prompt included; 0: of a training sample
  int64_t chunk = 128;  // tokens of a prompt that are computed at a time
  std::string cache;    // "compute", "f32": type of the cached keys and values
  std::string weights;  // "compute", "int8": type in which products read weights
  std::string model;    // which one generates, where there are several
  std::string input;    // data field of token ids; "": as training has it, or "tokens"
  bool only = false;    // the plan can do nothing else
  bool prefix_caching = false;  // a prompt reuses what a slot has cached of it
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1, min_p = 0, repetition_penalty = 1;
  int64_t max_tokens = 0, min_tokens = 0;
  int64_t seed = 0;
  std::vector<int64_t> end;       // ids that end a sequence
  std::vector<std::string> stop;  // texts that end a sequence
  std::string chat_template;      // of conversations
};

constexpr char kNoBest[] = "none";
struct CheckpointConfig {
  int64_t every = 0;
  double minutes = 15;  // since the last save; 0: never for that
  int64_t keep = 2;
  int64_t keep_optimizer = 0;  // of the newest that keep the optimizer's states; 0: all
  std::string best;            // a metric, "": that of early stopping, kNoBest
  bool at_end = true;
  bool background = true;
  std::string save = "all";  // or "trained": without frozen parameters
  bool only_trained() const { return save == "trained"; }
};

struct GuardConfig {
  int64_t nonfinite_limit = 10;
};

struct PluginsConfig {
  std::vector<std::string> paths, allow;
};

// One item of a plugin, as it is written in the file.
struct ItemConfig {
  std::string type;
  std::string path;  // "model.layers[2]"
  Origin origin;
  OptionSet keys;     // the engine's keys of the entry; their values are also in the fields below
  OptionSet options;  // the options that the item declares
};

// A parameter of a layer that is shared with another layer.
struct TieConfig {
  std::string own;   // the layer's name for it: "weight"
  std::string full;  // full name of the other parameter
  Origin origin;     // of the key
};

struct LayerConfig : ItemConfig {
  // unique within the model; by default the type and its number among layers of that type:
  // "linear1"; in blocks "block.linear1"
  std::string name;
  std::vector<std::string>
      from;  // empty: outputs of the previous layer (for the first layer: the first input field)
  std::vector<std::string> as;  // names of its outputs, of the block's own if it is in one
  std::vector<TieConfig> tie;
  int64_t repeat = 1;             // copies; 1 in an experiment that was read: it lists the copies
  std::string base;               // while it is read: the name before `repeat` numbers the copies
  int block = 0;                  // while it is read: which block it is in, 0: none
  std::string parallel = "none";  // one of the ways that the layer has
};

// Layers written once, of which an experiment that was read lists all copies.
struct BlockConfig {
  OptionSet keys;
  std::string type;  // "block"
  std::string name;
  int64_t repeat = 1;
};

struct LossConfig : ItemConfig {
  std::string name;               // name in the metrics; by default the type
  std::vector<std::string> from;  // empty: outputs of the last layer, and the first target field
  double weight = 1;
};

struct MetricConfig : ItemConfig {
  std::string name;
  std::vector<std::string> from;
  bool train = true;  // computed in training steps, too
};

// type "": the rule is that of the optimizer, with its options.
struct GroupConfig : ItemConfig {
  std::vector<std::string> match;  // patterns of full parameter names; * and ?
  // If the group sets none: the optimizer's, or with a type of its own the defaults of that.
  double learning_rate = 0, weight_decay = 0;
  std::optional<ItemConfig> schedule;  // the optimizer's if the group sets none
  bool frozen = false;
  bool elementwise = false;  // the optimizer's element-wise rule, whatever rule it would choose
  bool holds(const std::string& parameter) const;  // true if one of the patterns matches
};

// A PEFT method on some places of a model.
struct AdapterConfig : ItemConfig {
  std::string name;  // part of its parameters' names; by default the type
  // Several: one adapter of each name. Empty in an experiment that was read, which lists them all.
  std::vector<std::string> names;
  std::vector<std::string> match, exclude;  // patterns of full names of parameters and layers
  std::string load;                         // path of its weights, or "": in those of the model
  std::vector<std::string> load_missing, load_unexpected;  // patterns of names
  bool holds(const std::string& target) const;
};

struct OptimizerConfig : ItemConfig {
  double learning_rate = 0, weight_decay = 0;
  double clip_grad_norm = 0;           // 0: no clipping
  std::optional<ItemConfig> schedule;  // none: constant
  std::vector<GroupConfig> groups;
  // The item and the options by which parameters of a group are updated; -1: of no group.
  const ItemConfig& rule(int32_t group) const;
};

struct ModelConfig {
  std::string name;  // "model", or NAME of [models.NAME]
  std::string path;  // "model", "models.NAME"
  Origin origin;
  OptionSet keys;
  bool frozen = false;
  std::string load;                                        // path of weights, or ""
  std::vector<std::string> load_names;                     // rules of NameRules
  std::vector<std::string> load_missing, load_unexpected;  // patterns of names
  // Patterns of full names of parameters that are trained; empty: all, or with adapters none.
  std::vector<std::string> train;
  std::vector<LayerConfig> layers;
  // Each reads what those before it have made; with adapter_field every sample takes those of one
  // name. Entries of one name are one adapter.
  std::vector<AdapterConfig> adapters;
  // The data field with the number of the adapter that a sample takes, see adapter_names(); -1:
  // none. "": every sample takes all adapters.
  std::string adapter_field;
  std::vector<LossConfig> losses;
  std::vector<MetricConfig> metrics;
  // always set unless the model is frozen, or with generate.only
  std::optional<OptimizerConfig> optimizer;
  // Whether a parameter of its layers is trained, as far as the model alone says.
  bool trains(const std::string& parameter) const;
};

// The names of the model's adapters, each once, in order of first appearance: with adapter_field a
// sample names one by its place here.
std::vector<std::string> adapter_names(const ModelConfig& model);
// That number of the adapter with a name; -1 for kNoAdapter where none has it; nothing: there is no
// such adapter.
inline constexpr const char* kNoAdapter = "base";
std::optional<int64_t> adapter_number(const ModelConfig& model, const std::string& name);

// y = (x / divide - mean) / std
struct NormalizeConfig {
  std::string field;  // "*": every input of real numbers or u8 that has no entry of its own
  Origin origin;      // of the key
  OptionSet keys;
  bool automatic = false;  // mean and std are those of [data.train]
  double divide = 1;
  std::vector<double> mean{0}, std{1};  // one number, or one for each column
  bool inherited = false;               // from [data.train]
  bool same_values(const NormalizeConfig& o) const {
    return field == o.field && automatic == o.automatic && divide == o.divide && mean == o.mean &&
           std == o.std;
  }
};

struct DatasetConfig : ItemConfig {
  std::string name;  // "train", "eval", ...
  bool shuffle = false;
  int64_t prefetch = -1;
  int64_t limit = 0;  // 0: all samples
  std::vector<NormalizeConfig> normalize;
};

struct Experiment {
  Origin origin;       // of the file; problems about missing keys are reported here
  std::string folder;  // of the file
  RunConfig run;
  TopologyConfig topology;
  BatchConfig batch;
  PrecisionConfig precision;
  EvaluateConfig evaluate;
  StatisticsConfig statistics;
  WandbConfig wandb;
  GenerateConfig generate;
  CheckpointConfig checkpoint;
  GuardConfig guard;
  PluginsConfig plugins;
  std::vector<ModelConfig> models;      // at least one
  std::vector<DatasetConfig> datasets;  // in the order of the file
  Node device;  // [device]: options of the device item, see device_options()
  Node comm;    // [comm]: options of the comm item, see comm_options()
  std::optional<ItemConfig> tokenizer;  // [tokenizer]: of the model's token ids
  std::vector<std::pair<std::string, OptionSet>>
      sections;  // by path: the values above with their origins

  const DatasetConfig* dataset(std::string_view name) const;
  const ModelConfig* model(std::string_view name) const;
};

// Checks everything and reports every problem; the result is usable only if there was none.
Experiment load_experiment(const Document& document, const Catalog& catalog,
                           const PathResolver& resolver, Problems& problems);

// Reads a document whose keys are those of one item alone, a tokenizer or a format: `type` and the
// item's options.
ItemConfig load_one_item(std::string_view kind, const Document& document, const Catalog& catalog,
                         const PathResolver& resolver, Problems& problems);

// Reads [plugins] only, which is needed before plugins are loaded. Paths are unresolved: relative
// ones start at document.folder.
PluginsConfig plugins_config(const Document& document, Problems& problems);

// Options of the selected device. If the item declares "threads" and [device] does not set it,
// run.threads is used.
OptionSet device_options(const Experiment& experiment, const Catalog& catalog,
                         const std::string& device, const PathResolver& resolver,
                         Problems& problems);

// Options of the selected communication backend.
OptionSet comm_options(const Experiment& experiment, const Catalog& catalog,
                       const std::string& comm, const PathResolver& resolver, Problems& problems);

}  // namespace plait::config

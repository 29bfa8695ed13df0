// The keys of the engine inside the tables of items: layers, losses, optimizers, datasets, ...
#include "engine/config/schema.hpp"

#include <plait/dataset.h>
#include <plait/format.h>
#include <plait/layer.h>
#include <plait/optimizer.h>
#include <plait/peft.h>
#include <plait/tokenizer.h>

#include <string>

#include "engine/config/count.hpp"
#include "kit/option_decl.hpp"

namespace plait::config {
namespace {

using namespace kit;  // declarations
using enum KeyRole;

// A key that has no field: its reader takes it from the struct's OptionSet.
template <class C>
consteval Key<C> in_keys(plait_option option, KeyRole role = kAgreed) {
  option.struct_size = sizeof(Key<C>);
  return {{option, role, &detail::kOwnKey}, [](C&, const OptionValue&) {}};
}

constexpr Key<LayerConfig> kLayer[] = {
    key<&LayerConfig::type, LayerConfig>(text_option("type", nullptr, "layer item"), kResult),
    key<&LayerConfig::name>(
        text_option("name", "\"\"",
                    "name of the layer, part of its parameters' names; empty: type and number"),
        kResult),
    key<&LayerConfig::from>(
        texts_option("from", "[]",
                     "values to read, by the name that `as` gives, of a data field, or of a layer "
                     "before; empty: the output of the previous layer"),
        kResult),
    key<&LayerConfig::as>(
        texts_option("as", "[]", "names of the outputs, for `from` of other layers"), kResult),
    key<&LayerConfig::repeat>(
        at_least(
            int_option("repeat", "1",
                       "copies, each reading the one before; NAME becomes NAME0, NAME1, ... then"),
            1),
        kResult),
    key<&LayerConfig::parallel>(
        text_option("parallel", "\"none\"",
                    "how tensor parallelism shards the layer, of the ways that it has")),
};
constexpr Key<BlockConfig> kBlock[] = {
    key<&BlockConfig::type>(text_option("type", nullptr, "\"block\": layers written once"),
                            kResult),
    key<&BlockConfig::name>(
        text_option("name", "\"\"",
                    "NAME: its layers are NAME.LAYER, the names of their values are its own, and "
                    "`input` is what enters it; empty: layers are numbered through the copies"),
        kResult),
    key<&BlockConfig::repeat>(
        at_least(int_option("repeat", "1",
                            "copies, each reading the one before; NAME becomes NAME0, NAME1, ... "
                            "then"),
                 1),
        kResult),
};
constexpr Key<LossConfig> kLoss[] = {
    key<&LossConfig::type, LossConfig>(text_option("type", nullptr, "loss item"), kResult),
    key<&LossConfig::name>(text_option("name", "\"\"", "name of its metric; empty: its type"),
                           kResult),
    key<&LossConfig::from>(
        texts_option(
            "from", "[]",
            "names of the values to read; empty: the model's output and the first target field"),
        kResult),
    key<&LossConfig::weight>(
        real_option("weight", "1.0",
                    "weight of this loss in the sum of losses, each a mean over what it counts"),
        kResult),
};
constexpr Key<MetricConfig> kMetric[] = {
    key<&MetricConfig::type, MetricConfig>(text_option("type", nullptr, "metric item")),
    key<&MetricConfig::name>(text_option("name", "\"\"", "name of its metric; empty: its type")),
    key<&MetricConfig::from>(texts_option(
        "from", "[]",
        "names of the values to read; empty: the model's output and the first target field")),
    key<&MetricConfig::train>(bool_option(
        "train", "true", "compute it in training steps, too, not in evaluations alone")),
};
constexpr Key<OptimizerConfig> kOptimizer[] = {
    key<&OptimizerConfig::type, OptimizerConfig>(text_option("type", nullptr, "optimizer item"),
                                                 kResult),
    key<&OptimizerConfig::learning_rate>(
        at_least(real_option("learning_rate", "0.0",
                             "base learning rate, multiplied by the schedule; each optimizer has "
                             "its own default"),
                 0),
        kResult),
    key<&OptimizerConfig::weight_decay>(
        at_least(
            real_option("weight_decay", "0.0", "weight decay; each optimizer has its own default"),
            0),
        kResult),
    key<&OptimizerConfig::clip_grad_norm>(
        at_least(real_option("clip_grad_norm", "0.0",
                             "maximum global norm of the gradient, with model.adapter_field of "
                             "each adapter's gradient; 0: no clipping"),
                 0),
        kResult),
};
constexpr Key<ItemConfig> kSchedule[] = {
    key<&ItemConfig::type>(text_option("type", nullptr, "schedule item"), kResult),
};
constexpr Key<GroupConfig> kGroup[] = {
    key<&GroupConfig::type, GroupConfig>(
        text_option(
            "type", "\"\"",
            "optimizer item for these parameters, whose options then stand here; empty: the "
            "rule and the options of [optimizer]"),
        kResult),
    key<&GroupConfig::match>(texts_option("match", nullptr,
                                          "patterns of full parameter names, with * and ?; a "
                                          "parameter may match at most one group; "
                                          "without a match it uses the optimizer's own settings"),
                             kResult),
    key<&GroupConfig::learning_rate>(
        at_least(real_option("learning_rate", "0.0",
                             "learning rate; default: the optimizer's, or that of `type`"),
                 0),
        kResult),
    key<&GroupConfig::weight_decay>(
        at_least(real_option("weight_decay", "0.0",
                             "weight decay; default: the optimizer's, or that of `type`"),
                 0),
        kResult),
    key<&GroupConfig::frozen>(
        bool_option("frozen", "false", "true: these parameters are never updated"), kResult),
    key<&GroupConfig::elementwise>(
        bool_option(
            "elementwise", "false",
            "true: the optimizer's element-wise rule, where it has another one for whole tensors"),
        kResult),
    in_keys<GroupConfig>(text_option("name", "\"\"",
                                     "what metrics (lr.NAME) and tables call the group: letters, "
                                     "digits, _ and -; empty: its place, as optimizer.groups[0]")),
};
constexpr Key<AdapterConfig> kAdapter[] = {
    key<&AdapterConfig::type, AdapterConfig>(text_option("type", nullptr, "PEFT item"), kResult),
    key<&AdapterConfig::name>(text_option("name", "\"\"",
                                          "name of the adapter, part of its parameters' names: "
                                          "TARGET.NAME.OWN; empty: its type"),
                              kResult),
    key<&AdapterConfig::names>(texts_option(
        "names", "[]",
        "in place of `name`: one adapter of each of these names, all with the options of this "
        "entry; with model.adapter_field each sample takes one of them")),
    key<&AdapterConfig::match>(
        texts_option("match", nullptr,
                     "patterns of the full names of what it changes, with * and ?: parameters of "
                     "products and tables (model.fc1.weight), or layers (model.fc1)"),
        kResult),
    key<&AdapterConfig::exclude>(
        texts_option("exclude", "[]", "patterns of names that it leaves as they are"), kResult),
    key<&AdapterConfig::load>(path_option(
        "load", "\"\"",
        "weights of the adapter to start from, as of model.load; empty: those in model.load, or "
        "initial values where it has none")),
    key<&AdapterConfig::load_missing>(
        texts_option("load_missing", "[]",
                     "patterns of full names of its parameters that `load` may lack, with * and ?: "
                     "they keep their initial values")),
    key<&AdapterConfig::load_unexpected>(
        texts_option("load_unexpected", "[]",
                     "patterns of names in `load` that are ignored where the adapter has no such "
                     "parameter")),
};
constexpr Key<DatasetConfig> kDataset[] = {
    key<&DatasetConfig::type, DatasetConfig>(text_option("type", nullptr, "dataset item"), kResult),
    key<&DatasetConfig::shuffle>(
        bool_option("shuffle", "false",
                    "shuffle the samples each epoch; default for [data.train]: true"),
        kResult),
    key<&DatasetConfig::prefetch>(
        at_most(count("prefetch", "-1", -1, "batches",
                      "batches to read ahead; 0: none; -1: as many as fit in 8 MiB, 2 to 32"),
                1024)),
    key<&DatasetConfig::limit>(
        count("limit", "0", 0, "samples", "number of samples to use, from the first; 0: all"),
        kResult),
    in_keys<DatasetConfig>(
        texts_option("fields", "[]",
                     "its fields where its files are not there, each as \"x: input f32 [28,28]\" "
                     "(input, target or weight); the dataset then has no samples. Empty: of the "
                     "files")),
};
constexpr Key<ItemConfig> kTokenizer[] = {
    key<&ItemConfig::type>(text_option("type", nullptr, "tokenizer item"), kResult),
};
constexpr Key<ItemConfig> kFormat[] = {
    key<&ItemConfig::type>(text_option("type", nullptr, "format item"), kResult),
};
constexpr Key<NormalizeConfig> kNormalize[] = {
    key<&NormalizeConfig::automatic>(
        bool_option("auto", "false",
                    "mean and std of each column of [data.train], of all values where a sample has "
                    "several axes; also written FIELD = \"auto\", and normalize = \"auto\" for all "
                    "inputs of real numbers"),
        kResult),
    key<&NormalizeConfig::divide>(
        above(real_option("divide", "1.0", "y = (x / divide - mean) / std"), 0), kResult),
    key<&NormalizeConfig::mean>(
        reals_option("mean", "[0.0]", "see `divide`; one number, or one for each column"), kResult),
    key<&NormalizeConfig::std>(
        above(reals_option("std", "[1.0]", "see `divide`; one number, or one for each column"), 0),
        kResult),
};
constexpr Key<ModelConfig> kModel[] = {
    key<&ModelConfig::frozen>(
        bool_option("frozen", "false", "true: used for inference only, never updated"), kResult),
    key<&ModelConfig::load>(
        path_option("load", "\"\"",
                    "weights to start from: a safetensors file, a folder of such files with their "
                    "index, a checkpoint or a run directory; empty: initial values")),
    in_keys<ModelConfig>(
        count("context_length", "0", 0, "tokens",
              "tokens of a sample, at most, that `load` was trained with "
              "(max_position_embeddings); longer samples and generate.length are a warning; 0: "
              "not known")),
    key<&ModelConfig::load_names>(
        texts_option("load_names", "[]",
                     "names in `load` that differ, as \"OURS=THEIRS\"; * stands for the same text "
                     "on both sides: [\"linear*=fc*\"]")),
    key<&ModelConfig::load_missing>(texts_option(
        "load_missing", "[]",
        "patterns of full names of parameters that `load` may lack, with * and ?: they "
        "keep their initial values. It may always lack all of an adapter")),
    key<&ModelConfig::load_unexpected>(
        texts_option("load_unexpected", "[]",
                     "patterns of names in `load` that are ignored where the model has no such "
                     "parameter; others are an error")),
    key<&ModelConfig::train>(
        texts_option("train", "[]",
                     "patterns of full names of parameters that are trained, with * and ?; the "
                     "others are frozen; empty: all, or with adapters none but theirs"),
        kResult),
    key<&ModelConfig::adapter_field>(
        text_option("adapter_field", "\"\"",
                    "name of an integer data field with one number per sample: the adapter that it "
                    "takes, counted from 0 in the order of the entries (entries of one name are "
                    "one adapter); -1: none; empty: every sample takes all adapters, each reading "
                    "what the ones before it made"),
        kResult),
};

}  // namespace

KeyTable<LayerConfig> layer_keys() { return {kLayer}; }
KeyTable<BlockConfig> block_keys() { return {kBlock}; }
KeyTable<LossConfig> loss_keys() { return {kLoss}; }
KeyTable<MetricConfig> metric_keys() { return {kMetric}; }
KeyTable<OptimizerConfig> optimizer_keys() { return {kOptimizer}; }
KeyTable<ItemConfig> schedule_keys() { return {kSchedule}; }
KeyTable<GroupConfig> group_keys() { return {kGroup}; }
KeyTable<AdapterConfig> adapter_keys() { return {kAdapter}; }
KeyTable<DatasetConfig> dataset_keys() { return {kDataset}; }
KeyTable<ItemConfig> tokenizer_keys() { return {kTokenizer}; }
KeyTable<ItemConfig> format_keys() { return {kFormat}; }
KeyTable<NormalizeConfig> normalize_keys() { return {kNormalize}; }
KeyTable<ModelConfig> model_keys() { return {kModel}; }

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
      {PLAIT_KIND_OPTIMIZER,
       optimizer_keys(),
       {"schedule", "groups", "match", "frozen", "elementwise", "name"}},
      {PLAIT_KIND_PEFT, adapter_keys(), {}},
      {PLAIT_KIND_SCHEDULE, schedule_keys(), {}},
      {PLAIT_KIND_DATASET, dataset_keys(), {"normalize"}},
      {PLAIT_KIND_TOKENIZER, tokenizer_keys(), {}},
      {PLAIT_KIND_FORMAT, format_keys(), {}},
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

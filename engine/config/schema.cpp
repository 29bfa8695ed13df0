// The keys of the sections that belong to no item.
#include "engine/config/schema.hpp"

#include <string>

#include "engine/base/error.hpp"
#include "engine/config/count.hpp"
#include "kit/option_decl.hpp"

namespace plait::config {
namespace {

using namespace kit;  // declarations
using enum KeyRole;

constexpr Key<RunConfig> kRun[] = {
    key<&RunConfig::name>(text_option("name", "\"run\"", "name of the run and of its folder")),
    key<&RunConfig::steps>(
        count("steps", "0", 0, "steps", "length of the run; 0: set by `epochs`")),
    key<&RunConfig::epochs>(
        count("epochs", "0", 0, "epochs", "length of the run; 0: set by `steps`")),
    key<&RunConfig::seed>(
        count("seed", "42", 0, nullptr, "seed of initial values, sample order and dropout"),
        kResult),
    key<&RunConfig::out>(text_option("out", "\"runs\"", "folder that contains the run directories"),
                         kPerRank),
    key<&RunConfig::device>(
        text_option("device", "\"auto\"", "device to compute on; auto: the best available")),
    key<&RunConfig::threads>(
        at_most(count("threads", "0", 0, "threads", "compute threads; 0: one per available core"),
                4096),
        kPerRank),
    key<&RunConfig::device_timeout>(
        at_least(real_option("device_timeout", "300.0",
                             "seconds that a device which works by itself may take for what a rank "
                             "waits for, a few micro-batches; topology.timeout is added where "
                             "collectives work on the device"),
                 0.01),
        kPerRank),
    key<&RunConfig::plugin_timeout>(
        at_least(real_option("plugin_timeout", "0.0",
                             "seconds that one call of a plugin may take, as to read a batch or to "
                             "write the ops of a layer; plait ends with code 3 after that, and "
                             "checkpoints stay as they are; exchanges between ranks have "
                             "topology.timeout; 0: no limit, but the log names a call that has "
                             "not returned for 30 s"),
                 0),
        kPerRank),
    key<&RunConfig::log_every>(
        count("log_every", "1", 1, "steps",
              "write a line of metrics every so many steps; its rates, like the bar's and those at "
              "the end of a run, count the time of steps alone, without evaluations and saves"),
        kPerRank),
    key<&RunConfig::log_level>(
        choice_option("log_level", "\"info\"", "debug|info|warning|error",
                      "lines of this level and above go to the log files of a run, "
                      "log/rank-N.log; debug adds how the ranks met, what was planned, and what "
                      "was read and saved, with times; the terminal has -v and -q, a host its own "
                      "level"),
        kPerRank),
    key<&RunConfig::rank_metrics>(
        choice_option(
            "rank_metrics", "\"none\"", "none|all|pipeline|data|tensor",
            "ranks that write metrics of their own, where the time of their steps goes, to "
            "metrics/: all, or of each coordinate along an axis the first one"),
        kPerRank),
    key<&RunConfig::metrics_ranks>(
        ints_option("metrics_ranks", "[]", "ranks that do so, whatever `rank_metrics` says"),
        kPerRank),
    key<&RunConfig::peak_tflops>(
        at_least(real_option("peak_tflops", "0.0",
                             "TFLOP/s of products that the device of one rank cannot exceed, by "
                             "which mfu is reported; 0: what the device says of itself"),
                 0),
        kPerRank),
    key<&RunConfig::progress>(bool_option("progress", "true", "show a progress bar on a terminal"),
                              kPerRank),
    key<&RunConfig::resume>(choice_option(
        "resume", "\"never\"", "auto|never|must",
        "resume from the newest checkpoint: auto if there is one, never, or must (fails without "
        "one)")),
    key<&RunConfig::from>(path_option(
        "from", "\"\"",
        "checkpoint or run directory that a new run continues from: weights, states of the "
        "optimizer, step and position in the data, of any layout; `resume` takes a checkpoint of "
        "the run itself first; model.load takes weights alone; sessions that keep no files do not "
        "read it; empty: none")),
    key<&RunConfig::from_position>(bool_option(
        "from_position", "true",
        "false: `from` gives weights and states of the optimizer alone, and steps, schedules and "
        "data begin anew")),
};
constexpr Key<TopologyConfig> kTopology[] = {
    key<&TopologyConfig::data>(
        count("data", "1", 0, "ranks",
              "replicas; each computes its part of the batch; 0: the number of ranks that are "
              "started, divided by the other axes")),
    key<&TopologyConfig::tensor>(
        count("tensor", "1", 0, "ranks",
              "tensor-parallel ranks; layers with `parallel` are sharded over them; 0: as for "
              "`data`; one axis at most can be 0")),
    key<&TopologyConfig::sequence>(bool_option(
        "sequence", "false",
        "sequence parallelism: between layers with `parallel`, tensor ranks hold and compute 1/T "
        "of the rows each, where T divides their number")),
    key<&TopologyConfig::pipeline>(
        count("pipeline", "1", 0, "ranks",
              "pipeline ranks; the layers are divided into stages over them; 0: as for "
              "`data`")),
    key<&TopologyConfig::schedule>(
        choice_option("schedule", "\"1f1b\"", "gpipe|1f1b|interleaved|zero_bubble",
                      "pipeline schedule: order of the forward and backward passes of a step")),
    key<&TopologyConfig::virtual_stages>(
        count("virtual_stages", "1", 1, "stages",
              "pipeline stages per rank; more than 1 only with interleaved")),
    key<&TopologyConfig::stages>(ints_option(
        "stages", "[]", "number of layers of each stage, in order; empty: see `balance`")),
    key<&TopologyConfig::balance>(
        choice_option("balance", "\"cost\"", "cost|count",
                      "balance stages by the FLOPs of their layers or by the number of layers")),
    key<&TopologyConfig::zero>(at_most(
        count("zero", "0", 0, nullptr,
              "ZeRO stage: shard 1 optimizer states, 2 also gradients, 3 also parameters across "
              "replicas"),
        3)),
    key<&TopologyConfig::bucket_mib>(at_least(
        real_option("bucket_mib", "8.0", "MiB of gradients that replicas reduce in one collective"),
        0.001)),
    key<&TopologyConfig::chunk_mib>(at_least(
        real_option("chunk_mib", "64.0",
                    "MiB above which logits and their gradient are computed in chunks of rows; "
                    "0: never"),
        0)),
    key<&TopologyConfig::chunk_rows>(
        count("chunk_rows", "256", 1, "rows",
              "minimum rows per chunk; each chunk reads the whole weight once")),
    key<&TopologyConfig::recompute>(choice_option(
        "recompute", "\"cheap\"", "cheap|none|layer|stage|budget",
        "activation checkpointing: inputs of large products behind norms, activations and rope; "
        "none; values used only inside a layer or a named block; every value of a stage; or the "
        "cheapest values until `recompute_budget` is met")),
    key<&TopologyConfig::recompute_budget>(at_least(
        real_option("recompute_budget", "0.0", "MiB of activations that a program may hold"), 0)),
    key<&TopologyConfig::recompute_flops>(at_least(
        real_option("recompute_flops", "1024.0",
                    "with \"cheap\": FLOPs that products of the backward pass do with each element "
                    "of what is recomputed, at least"),
        0)),
    key<&TopologyConfig::backend>(
        text_option("backend", "\"auto\"",
                    "communication backend; auto picks the fastest that connects all ranks and for "
                    "which this machine has room (shm: memory)")),
    key<&TopologyConfig::timeout>(at_least(
        real_option("timeout", "60.0",
                    "seconds for one collective, and of silence before a rank counts as lost"),
        0.01)),
    key<&TopologyConfig::connect_timeout>(
        at_least(real_option("connect_timeout", "60.0",
                             "seconds for all ranks to connect, and then for all to open their "
                             "devices"),
                 0.01)),
};
constexpr Key<BatchConfig> kBatch[] = {
    key<&BatchConfig::global>(
        count("global", "0", 0, "samples",
              "samples per step, over all ranks; 0: derived from `micro` and `accumulation`, which "
              "then must both be given, unless with generate.only"),
        kResult),
    key<&BatchConfig::micro>(
        count("micro", "0", 0, "samples",
              "samples per micro-batch of a replica; 0: derived from `global` and `accumulation`")),
    key<&BatchConfig::eval>(
        count("eval", "0", 0, "samples",
              "samples per evaluation batch, over all replicas; 0: `micro` per replica")),
    key<&BatchConfig::accumulation>(
        count("accumulation", "0", 0, "passes",
              "micro-batches per step on each replica; 0: derived from `global` and `micro`")),
};
constexpr Key<PrecisionConfig> kPrecision[] = {
    key<&PrecisionConfig::compute>(
        choice_option(
            "compute", "\"f32\"", "f32|f64|bf16|f16",
            "type of layers; bf16 and f16: of products and attention, while parameters, gradients, "
            "optimizer states, norms and losses stay f32; f64 is for all, and slow"),
        kResult),
    key<&PrecisionConfig::master>(
        bool_option("master", "true",
                    "keep the weights in f32 and compute with copies; false, with bf16: they are "
                    "bf16 alone, 2 bytes each, and every update is rounded to one of the two "
                    "nearest at random, exact on average; gains and biases stay f32"),
        kResult),
    key<&PrecisionConfig::split_master>(
        bool_option("split_master", "false",
                    "with bf16, keep each f32 weight as its copy and the 16 bits that the copy "
                    "lacks, 4 bytes instead of 6: nothing is lost, but a host has no view of such "
                    "a weight, and copies round halves away from 0; no effect with zero = 3"),
        kResult),
    key<&PrecisionConfig::states>(
        choice_option(
            "states", "\"f32\"", "f32|bf16",
            "type of optimizer states that have the shape of a weight of two or more dimensions, "
            "such as Adam's two averages. bf16: 2 bytes each in place of 4, and every update is "
            "rounded to one of the two nearest at random, exact on average. Adapters of methods "
            "with rules of their own (adalora) keep f32"),
        kResult),
    key<&PrecisionConfig::frozen>(
        choice_option(
            "frozen", "\"master\"", "master|compute|int8|nf4",
            "how frozen weights are kept. compute: weights of two or more dimensions "
            "in the type of `compute` alone, 2 bytes each with bf16 or f16. int8, nf4: weights "
            "that only products read as numbers of 8 or 4 bits with scales, 1.13 or 0.53 "
            "bytes each, the others as with compute; checkpoints leave these numbers out, as "
            "checkpoint.save = \"trained\" does with all frozen weights"),
        kResult),
    key<&PrecisionConfig::residual>(
        choice_option("residual", "\"f32\"", "f32|compute",
                      "with bf16 or f16, type of the residual stream that an embedding begins"),
        kResult),
    key<&PrecisionConfig::tf32>(
        bool_option("tf32", "false",
                    "products of f32 round their operands to TF32, 10 bits of fraction, on devices "
                    "whose tensor cores multiply them; sums stay f32. Others compute in f32"),
        kResult),
    key<&PrecisionConfig::tune>(
        bool_option(
            "tune", "false",
            "a GPU measures the algorithms of each product when a session opens, and all "
            "ranks take the fastest, in later sessions too (device.cache); other algorithms "
            "round otherwise. false: the choice follows from shapes and library"),
        kResult),
    key<&PrecisionConfig::library_attention>(
        bool_option("library_attention", "false",
                    "with bf16 or f16, a library that the device may have (cuda: cuDNN) computes "
                    "attention forward, where it takes the call; it rounds otherwise. Else, and "
                    "backward, Plait's kernels compute it"),
        kResult),
    key<&PrecisionConfig::products>(
        choice_option("products", "\"compute\"", "compute|fp8",
                      "what products of layers with weights multiply, forward and backward: "
                      "numbers of `compute`, or 8-bit floats with scales as [precision.fp8] says"),
        kResult),
};
constexpr const char* kFp8Formats = "e4m3 x e4m3|e4m3 x e5m2|e5m2 x e4m3|off";
constexpr Key<PrecisionConfig> kPrecisionFp8[] = {
    key<&PrecisionConfig::fp8_scaling>(
        choice_option("scaling", "\"tensor\"", "tensor|row",
                      "what has a scale of its own: an operand as a whole, or each of its rows "
                      "along the sum, which rounds rows of small numbers less"),
        kResult),
    key<&PrecisionConfig::fp8_forward>(
        choice_option("forward", "\"e4m3 x e4m3\"", kFp8Formats,
                      "formats of input and weight; no device multiplies e5m2 by e5m2"),
        kResult),
    key<&PrecisionConfig::fp8_grad_input>(
        choice_option("grad_input", "\"e5m2 x e4m3\"", kFp8Formats,
                      "formats of the gradient of the result and the weight"),
        kResult),
    key<&PrecisionConfig::fp8_grad_weight>(
        choice_option("grad_weight", "\"e4m3 x e5m2\"", kFp8Formats,
                      "formats of the input and the gradient of the result"),
        kResult),
    key<&PrecisionConfig::fp8_except>(
        texts_option("except", "[]",
                     "patterns of names of parameters whose products stay as they are, as the head "
                     "and the first and last blocks of a language model; * and ?"),
        kResult),
};
constexpr Key<PrecisionConfig> kPrecisionScale[] = {
    key<&PrecisionConfig::scale_initial>(
        at_least(real_option("initial", "65536.0", "loss scale at the start"), 1), kResult),
    key<&PrecisionConfig::scale_window>(
        count("window", "1000", 1, "steps", "steps without overflow until the scale grows"),
        kResult),
    key<&PrecisionConfig::scale_hysteresis>(
        count("hysteresis", "2", 1, "steps", "overflows until the scale shrinks"), kResult),
    key<&PrecisionConfig::scale_consecutive>(
        bool_option("consecutive", "false",
                    "only overflows one after the other use up the hysteresis"),
        kResult),
    key<&PrecisionConfig::scale_min>(at_least(real_option("min", "1.0", "least loss scale"), 1e-30),
                                     kResult),
    key<&PrecisionConfig::scale_factor>(
        above(real_option("factor", "2.0", "by which the scale grows and shrinks"), 1), kResult),
};
constexpr Key<EvaluateConfig> kEvaluate[] = {
    key<&EvaluateConfig::every>(
        count("every", "0", 0, "steps", "evaluate every so many steps; 0: only at the end")),
    key<&EvaluateConfig::batches>(
        count("batches", "0", 0, "batches", "batches per evaluation; 0: all samples")),
    key<&EvaluateConfig::outputs>(
        choice_option("outputs", "\"auto\"", "auto|all|none",
                      "named values, and the last layer's output, that a host can predict: auto: "
                      "values of at most "
                      "`topology.chunk_mib`; larger ones are kept in memory only with all")),
    key<&EvaluateConfig::adapter>(text_option(
        "adapter", "\"\"",
        "with model.adapter_field: the adapter that every sample of an evaluation or a prediction "
        "takes, whose data then need no such field; base: the model alone; empty: samples choose")),
};
constexpr Key<EvaluateConfig> kEarlyStop[] = {
    key<&EvaluateConfig::stop_metric>(text_option(
        "metric", "\"\"", "metric of the evaluation to watch; empty: no early stopping")),
    key<&EvaluateConfig::patience>(count(
        "patience", "0", 0, "evaluations",
        "evaluations in a row without improvement after which the run stops; 0 is the same as 1")),
    key<&EvaluateConfig::min_delta>(at_least(
        real_option("min_delta", "0.0", "smallest change that counts as an improvement"), 0)),
};
constexpr Key<StatisticsConfig> kStatistics[] = {
    key<&StatisticsConfig::every>(count(
        "every", "0", 0, "steps", "compute figures of tensors every so many steps; 0: never")),
    key<&StatisticsConfig::of>(texts_option("of", "[\"parameters\", \"gradients\"]",
                                            "of which tensors: parameters, gradients (before "
                                            "clipping), activations (outputs of layers), "
                                            "activation_gradients")),
    key<&StatisticsConfig::match>(texts_option(
        "match", "[\"*\"]", "names of parameters and layers, such as model.linear1.*; * and ?")),
    key<&StatisticsConfig::figures>(texts_option(
        "figures", "[\"mean\", \"std\", \"l2\", \"abs_max\", \"zero\", \"nan\"]",
        "what to compute: these, l1, skew, kurtosis, min, max, median, abs_mean, abs_std, abs_min, "
        "abs_median, pos_inf, neg_inf, underflow_e4m3, underflow_e5m2, max_sparsity, "
        "norm_sparsity, "
        "q01, q10, q25, q75, q90, q99, abs_q01 to abs_q99; all")),
};
constexpr Key<WandbConfig> kWandb[] = {
    key<&WandbConfig::write>(
        bool_option("write", "false",
                    "write metrics and settings below wandb/ of the run directory, for `wandb "
                    "sync RUN/wandb/offline-run-*`"),
        kPerRank),
    key<&WandbConfig::project>(
        text_option("project", "\"\"",
                    "project to which they are uploaded; empty: the first part of run.name"),
        kPerRank),
    key<&WandbConfig::entity>(
        text_option("entity", "\"\"", "user or team of the project; empty: the uploading user"),
        kPerRank),
    key<&WandbConfig::group>(text_option("group", "\"\"", "group of the run; empty: none"),
                             kPerRank),
};
constexpr Key<GenerateConfig> kGenerate[] = {
    key<&GenerateConfig::slots>(
        at_most(count("slots", "0", 0, "sequences",
                      "sequences that are generated at a time, each with a KV cache; 0: none, or 1 "
                      "with `only`"),
                65536)),
    key<&GenerateConfig::length>(
        at_most(count("length", "0", 0, "tokens",
                      "tokens of a sequence at most, its prompt included; 0: as many as a training "
                      "sample has"),
                int64_t{1} << 30)),
    key<&GenerateConfig::chunk>(
        count("chunk", "128", 1, "tokens", "tokens of a prompt that are computed in one launch")),
    key<&GenerateConfig::cache>(
        choice_option("cache", "\"compute\"", "compute|f32",
                      "type of cached keys and values: that of precision.compute, or f32")),
    key<&GenerateConfig::weights>(choice_option(
        "weights", "\"compute\"", "compute|int8",
        "type in which products read weights: that of precision.compute, or numbers of 8 bits with "
        "a scale for each row and 32 columns, made of the parameters at the first token")),
    key<&GenerateConfig::model>(
        text_option("model", "\"\"", "the model that generates; empty: the only one")),
    key<&GenerateConfig::input>(text_option(
        "input", "\"\"",
        "the input of the model that takes token ids; empty: the field of [data.train], "
        "or tokens without data")),
    key<&GenerateConfig::only>(bool_option(
        "only", "false", "generate and nothing else: no gradients, no optimizer states, no data")),
    key<&GenerateConfig::prefix_caching>(
        bool_option("prefix_caching", "false",
                    "a prompt that begins as the last sequence of a free slot did is computed from "
                    "there on, as "
                    "the next turn of a conversation; its logits may then differ by rounding")),
    key<&GenerateConfig::temperature>(at_least(
        real_option("temperature", "1.0",
                    "divides the logits before a token is drawn; 0: the most likely token"),
        0)),
    key<&GenerateConfig::top_k>(
        count("top_k", "0", 0, "tokens", "draw among so many most likely tokens; 0: among all")),
    key<&GenerateConfig::top_p>(at_most(
        above(real_option("top_p", "1.0",
                          "draw among the most likely tokens whose probabilities sum up to this"),
              0),
        1)),
    key<&GenerateConfig::min_p>(at_most(
        at_least(real_option("min_p", "0.0",
                             "draw among tokens at least this share as likely as the likeliest"),
                 0),
        1)),
    key<&GenerateConfig::repetition_penalty>(
        above(real_option("repetition_penalty", "1.0",
                          "makes tokens of the prompt and the text so far less likely; 1: not"),
              0)),
    key<&GenerateConfig::max_tokens>(count("max_tokens", "0", 0, "tokens",
                                           "tokens after the prompt at most; 0: up to `length`")),
    key<&GenerateConfig::min_tokens>(
        count("min_tokens", "0", 0, "tokens", "tokens after the prompt before which none ends it")),
    key<&GenerateConfig::seed>(count("seed", "0", 0, nullptr, "seed of the tokens drawn")),
    key<&GenerateConfig::end>(
        ints_option("end", "[]", "ids that end a sequence; empty: the end token of [tokenizer]")),
    key<&GenerateConfig::stop>(
        texts_option("stop", "[]", "texts that end a sequence and are left out of it")),
    key<&GenerateConfig::chat_template>(
        text_option("chat_template", "\"\"",
                    "how the model has learned to see conversations: chatml, llama3, ...")),
};
constexpr Key<CheckpointConfig> kCheckpoint[] = {
    key<&CheckpointConfig::every>(
        count("every", "0", 0, "steps", "save every so many steps; 0: not by steps")),
    key<&CheckpointConfig::minutes>(
        at_least(real_option("minutes", "15.0",
                             "save when so many minutes have passed since the last save; 0: not by "
                             "time"),
                 0)),
    key<&CheckpointConfig::keep>(
        count("keep", "2", 1, "checkpoints", "number of newest checkpoints to keep")),
    key<&CheckpointConfig::keep_optimizer>(
        count("keep_optimizer", "0", 0, "checkpoints",
              "number of newest checkpoints that keep the optimizer's states; older ones, the best "
              "one too, lose them when a newer one is saved: they serve to evaluate, generate, "
              "export and load weights, and no run continues from them exactly; 0: all keep them")),
    key<&CheckpointConfig::best>(text_option(
        "best", "\"\"",
        "loss, or a metric of the evaluation: the checkpoint of its best value is kept besides the "
        "newest ones; empty: the metric of evaluate.early_stop, if there is one; none: no metric")),
    key<&CheckpointConfig::at_end>(bool_option("at_end", "true", "save at the end of the run")),
    key<&CheckpointConfig::background>(
        bool_option("background", "true",
                    "continue training while a save is written, from a copy in host memory; where "
                    "`every` is set")),
    key<&CheckpointConfig::save>(choice_option(
        "save", "\"all\"", "all|trained",
        "parameters of a checkpoint: all, or without the frozen ones; such a checkpoint refers to "
        "the weights of model.load by path and hash, and is loaded beside them")),
};
constexpr Key<GuardConfig> kGuard[] = {
    key<&GuardConfig::nonfinite_limit>(count(
        "nonfinite_limit", "10", 1, "steps",
        "stop the run after this many skipped steps in a row; a step with non-finite values is "
        "skipped")),
};
constexpr Key<PluginsConfig> kPlugins[] = {
    key<&PluginsConfig::paths>(
        texts_option("paths", "[]",
                     "plugin files or folders of plugins, searched first; relative to this file"),
        kPerRank),
    key<&PluginsConfig::allow>(
        texts_option("allow", "[]", "names of the plugins that may be loaded; empty: all"),
        kPerRank),
};

// A section whose keys `table` are read into the member `Member` of an Experiment.
template <auto Member, auto& table>
constexpr Section of(const char* path, const char* help) {
  return {path, help, table_of(table), [](const OptionSet& values, Experiment& to) {
            table_of(table).read(values, to.*Member);
          }};
}

const Section kSections[] = {
    of<&Experiment::run, kRun>("run", "name, length and seed of the run"),
    of<&Experiment::topology, kTopology>(
        "topology", "layout of ranks; data * tensor * pipeline is the number of processes"),
    of<&Experiment::batch, kBatch>("batch", "samples per step"),
    of<&Experiment::precision, kPrecision>("precision", "number formats"),
    of<&Experiment::precision, kPrecisionScale>("precision.scale",
                                                "loss scale, of compute = \"f16\" alone"),
    of<&Experiment::precision, kPrecisionFp8>("precision.fp8",
                                              "8-bit products, of products = \"fp8\" alone"),
    of<&Experiment::evaluate, kEvaluate>("evaluate", "evaluation on [data.eval]"),
    of<&Experiment::evaluate, kEarlyStop>("evaluate.early_stop",
                                          "stop when a metric no longer improves"),
    of<&Experiment::statistics, kStatistics>("statistics",
                                             "figures of tensors while training, for TensorBoard "
                                             "and statistics.ndjson"),
    of<&Experiment::wandb, kWandb>("wandb", "files for Weights & Biases"),
    of<&Experiment::generate, kGenerate>("generate", "generation of tokens with a KV cache"),
    of<&Experiment::checkpoint, kCheckpoint>("checkpoint", "checkpoints"),
    of<&Experiment::guard, kGuard>("guard", "conditions that stop a failing run"),
    of<&Experiment::plugins, kPlugins>("plugins", "plugins to load"),
};

}  // namespace

std::span<const Section> sections() { return kSections; }

const Section& section(std::string_view path) {
  for (const Section& s : kSections)
    if (path == s.path) return s;
  fail_internal("[config] there is no section '" + std::string(path) + "'");
}

KeyRole role_of(const plait_option& declared) {
  if (declared.struct_size < sizeof(KeyDeclaration)) return kResult;
  // Room enough to look for the mark.
  const auto& key = reinterpret_cast<const KeyDeclaration&>(declared);
  return key.mark == &detail::kOwnKey ? key.role : kResult;
}

}  // namespace plait::config

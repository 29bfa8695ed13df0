// Tracing: the models of an experiment, written by their layers into one program.
#pragma once

#include <plait/peft.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/plan/normalization.hpp"
#include "engine/plan/plan_draft.hpp"
#include "engine/program/c_builder.hpp"
#include "engine/program/per_sample.hpp"

namespace plait::plan {

using program::Graph;
using program::ValueId;

// The stage of the pipeline that a model's layer belongs to; the losses are asked for behind the
// last layer.
using StageOf = std::function<int32_t(size_t model, size_t layer)>;

// What a program is fed from. Without fields, a dataset that could not be opened: nothing is known.
struct TraceSource {
  const std::vector<plait_field>* fields = nullptr;
  const config::DatasetConfig* config = nullptr;  // null: nothing is normalised
  std::string name;
};

enum class TraceMode : uint8_t {
  kTraining,
  kEvaluation,  // with metrics
  kObserved,    // as in training, for statistics of what layers make: without metrics
  kGeneration,  // as in an evaluation, without losses and metrics
};

// A product, look-up or layer that a PEFT method can change.
struct AdapterTarget {
  std::string model, name;
  uint32_t what = 0;  // PLAIT_PEFT_*
};

// Names an adapter among all of an experiment: several may have one entry.
inline std::string key_of(const config::AdapterConfig& adapter) {
  return adapter.path + "." + adapter.name;
}

// One that adapters change, with what their merge() and start() are told of it.
struct AdaptedTarget {
  std::string model, name;
  uint32_t what = 0;
  bool out_in = false;
  std::string weight, bias;  // full names of parameters; "": there is none
  int64_t shard_unit = 1;
  int32_t shard_dim = -1;
  std::vector<const config::AdapterConfig*> adapters;  // in their order
  // What else reads the weight or bias, so that a change of it would change more than the target:
  // the scope of an op; "": nothing.
  std::string weight_reader, bias_reader;
};

// One pass over all models, for training or for evaluation. Parameters are registered in the plan
// when they are first met. Programs are written from copies of the graph, so a pass serves every
// plan with the same models and stages.
class Tracer {
 public:
  // problems: what fails is added there, and tracing continues with values of unknown shape, whose
  // own failures are not reported. Entries that have a problem already are such failures. Null: the
  // first failure is thrown.
  Tracer(PlanDraft& plan, Feed& feed, TraceSource source, TraceMode mode, StageOf stage_of,
         config::Problems* problems);

  // Traces every model.
  void run();
  // What layers of this model would have made is not known: one of them failed.
  bool failed_in(const std::string& model) const { return failed_models_.contains(model); }

  Graph& graph() { return *graph_; }
  const Graph& graph() const { return *graph_; }

  // Results, by index of the experiment's models.
  struct Result {
    // 0: the model has no loss. weight_sum is 0, too, where the losses are multiplied by `factors`.
    ValueId loss_sum = 0, weight_sum = 0;
    // The sums of weights that its losses count, each once. Of several, a model that trains has a
    // factor for each, an input of the program: see loss_weights.hpp.
    std::vector<ValueId> weights, factors;
    // With adapters by sample, in a training step: of each adapter those of `weights` that its
    // losses count; (2 n) of n losses, and of terms by name: the sum over all samples and the
    // weights that it counts.
    std::vector<std::vector<size_t>> adapter_weights;
    ValueId mean_sums = 0;
    ValueId output = 0;
    ModelFlops forward;              // of its products as layers and losses wrote them
    double frozen = 0;               // of them, of products with a frozen weight
    bool is_log_likelihood = false;  // its one loss is, in nats
  };
  const std::vector<Result>& results() const { return results_; }
  // Of evaluations, and of training steps where the metric asks for it. Where there are several
  // losses each is one of them, before its weight: "loss.NAME". With adapters by sample each is
  // there for the samples of each adapter as well: see Metric.
  struct MetricState {
    std::string name;
    const plait_metric_item* item;  // null: a loss, whose state is its sum
    size_t model;
    ValueId state;
    bool has_weights = false;  // of a loss: see Metric
    double factor = 1;
    std::string adapter = {};
  };
  const std::vector<MetricState>& metric_states() const { return metric_states_; }
  // Whether methods wrote terms of the loss before the number of their targets was known: then
  // the models are to be traced again.
  bool counted_targets_late() const { return counted_late_; }
  // What adapters could change.
  const std::vector<AdapterTarget>& adapter_targets() const { return adapter_targets_; }
  // What they do change.
  const std::vector<AdaptedTarget>& adapted_targets() const { return adapted_targets_; }
  // With kObserved: the first output of each layer of floats, "model.h.0".
  struct LayerOutput {
    std::string name;
    size_t model;
    ValueId value;
  };
  const std::vector<LayerOutput>& layer_outputs() const { return layer_outputs_; }
  // Values that layers named with `as`, and "output" (of the last layer).
  const std::vector<std::pair<std::string, ValueId>>& outputs() const { return outputs_; }
  // The parameter's value in this program; 0 when the program does not read it.
  ValueId parameter_value(const std::string& name) const;
  // The value of a data field; 0 when no layer reads it.
  ValueId field(const std::string& name) const;
  // Whether each sample of this trace takes an adapter of its own, and not one that all take: with
  // evaluate.adapter it does not in an evaluation.
  bool samples_choose(const config::ModelConfig& model) const;
  // Whether all samples take this one.
  bool all_take(const config::ModelConfig& model, const std::string& adapter) const;
  // The number of the adapter that each sample takes, integers (B), in the order of
  // adapter_names(); -1: none. Of a model with adapter_field; throws where that is no such field.
  // For the stage that is being written.
  ValueId adapter_index(const config::ModelConfig& model);
  // 1 for each sample that takes an adapter of these numbers (or -1), else 0: floats (B).
  ValueId takes(const config::ModelConfig& model, const std::vector<int64_t>& numbers);

 private:
  void trace_model(size_t m);
  double frozen_products_from(size_t first_op);
  void trace_layer(const config::ModelConfig& model, const config::LayerConfig& layer);
  std::vector<ValueId> build_layer(const config::ModelConfig& model,
                                   const config::LayerConfig& layer);
  // In trace_adapters.cpp.
  ValueId adapt_result(const config::ModelConfig& model, const config::LayerConfig& layer,
                       ValueId result);
  ValueId adapt_layer(const config::ModelConfig& model, ValueId input, ValueId output);
  ValueId adapt(const config::ModelConfig& model, AdaptedTarget known, plait_peft_target target,
                int32_t op);
  // In trace_by_sample.cpp.
  // With equal methods and options, at one target.
  using AdapterGroup = std::vector<const config::AdapterConfig*>;
  ValueId adapt_by_sample(const config::ModelConfig& model, const AdapterGroup& all,
                          plait_peft_target target);
  ValueId wrap_by_sample(const config::ModelConfig& model, const AdapterGroup& group,
                         const plait_peft_target& target);
  ValueId local_index(const config::ModelConfig& model, const AdapterGroup& group);
  ValueId parameter_of_group(const plait_parameter& p, const config::ModelConfig& model,
                             const AdapterGroup& group, const plait_peft_target& target,
                             program::PerSample& own);
  bool is_shared(ValueId v);
  void check_by_sample(const config::ModelConfig& model, const AdapterGroup& all,
                       const plait_peft_target& target);
  void note_adapter_ranges();
  const Parameter* parameter_behind(const config::LayerConfig& layer, ValueId v) const;
  void note_other_readers();
  std::string other_reader(const AdaptedTarget& target, const std::string& parameter) const;
  ValueId wrap(const config::ModelConfig& model, const config::AdapterConfig& adapter,
               const plait_peft_target& target);
  void write_for(const config::AdapterConfig& adapter, const plait_peft_target& target);
  static std::string random_owner(const config::AdapterConfig& adapter,
                                  const plait_peft_target& target);
  ValueId call_wrap(const config::AdapterConfig& adapter, const plait_peft_target& target,
                    const program::BuildHooks& hooks);
  void enter_blocks(const config::ModelConfig& model, const std::string& layer);
  void name_outputs(const config::ModelConfig& model, const config::LayerConfig& layer,
                    const std::vector<ValueId>& out);
  void note_layer(const config::LayerConfig& layer, ValueId output, size_t first_op);
  void check_ties(const config::LayerConfig& layer);
  void trace_losses(size_t m);
  // What a loss writes, or terms of one name.
  struct LossSums {
    const config::ItemConfig* entry;  // for messages
    std::string name;
    double factor;
    ValueId sum, weights;  // over the samples: of weight * loss, and of the weights
    bool is_log_likelihood;
    std::string adapter = {};  // of whose samples; "": of all
    bool is_term = false;
    ValueId scaled = 0;  // of terms: sum, each multiplied by its factor; `factor` is then 1
  };
  LossSums build_loss(const config::LossConfig& loss);
  std::vector<LossSums> build_losses(size_t m);
  void add_loss(size_t m, const LossSums& sums);
  void add_loss_metric(size_t m, const LossSums& sums, bool has_weights);
  void note_adapter_weights(size_t m, const std::vector<LossSums>& of_adapters);
  ValueId joined(const std::vector<ValueId>& scalars);
  ValueId factor_of(Result& r, ValueId weights);
  // In trace_terms.cpp: terms of the loss that layers and PEFT methods add.
  struct LossTerm {
    const config::ItemConfig* entry;  // who adds it
    std::string scope, name;
    double factor;
    ValueId sum, weights;
    // With adapters by sample, of a method: whose term it is, and what its scalars stand for
    // (program/per_sample.hpp); 0: they are scalars.
    AdapterGroup group = {};
    ValueId sums = 0, all_weights = 0;
  };
  void note_term(LossTerm term);
  void note_target_counts();
  std::vector<LossSums> terms_of(size_t m);
  std::map<std::string, std::array<ValueId, 2>> over_adapters(const std::vector<LossSums>& terms);
  void add_term(size_t m, std::vector<LossSums>& to, const LossTerm& term, ValueId sum,
                ValueId weights, const std::string& adapter);
  void add_terms_by_sample(size_t m, std::vector<LossSums>& to, const LossTerm& term);
  void check_term_name(size_t m, const LossTerm& term) const;
  ValueId of_adapter(ValueId scalar, ValueId stack, size_t member, ValueId own_weights);
  bool are_equal(ValueId a, ValueId b) const;
  ValueId known_weights(const std::vector<ValueId>& among, ValueId weights) const;
  // Calls for each adapter of a model whose samples choose one, while the weights of samples that
  // take another one are 0.
  void for_each_adapter(size_t m, const std::function<void(const std::string& adapter)>& call);
  void trace_metrics(size_t m);
  void build_metric(size_t m, const config::MetricConfig& metric, const std::string& adapter);
  bool has_several_losses() const;
  // Runs what an entry asks for; false when that failed.
  bool trace_entry(const config::ItemConfig& entry, const std::function<void()>& call);
  void report(const config::ItemConfig& entry, const Error& error);
  ValueId poison(ValueId like);
  ValueId note_poison(ValueId v);
  ValueId field_value(const std::string& name);
  ValueId normalized(const std::string& field, ValueId raw);
  ValueId normalized_by_column(const Normalization& n, ValueId v);
  ValueId named(const std::string& name);
  const ValueId* find_in_scope(const std::map<std::string, ValueId>& among,
                               const std::string& name) const;
  std::vector<ValueId> loss_inputs(const config::ItemConfig& entry,
                                   const std::vector<std::string>& from, uint32_t least,
                                   uint32_t most);
  void check_inputs(const config::ItemConfig& entry, const std::vector<std::string>& from,
                    const std::vector<ValueId>& in, uint32_t least, uint32_t most);
  ValueId first_input();
  ValueId default_target();
  program::RandomStream random_stream();
  ValueId random_uniform(ValueId like);
  const std::string& owner() const { return adapter_ ? owner_ : graph_->scope; }
  ValueId parameter(const plait_parameter& p, const config::ModelConfig& model,
                    const config::LayerConfig& layer);
  const Parameter* find_registered(const std::string& name) const;
  const Parameter& find_or_register(const plait_parameter& p, const config::ModelConfig& model,
                                    const config::LayerConfig& layer);
  Parameter new_parameter(const plait_parameter& p, const config::ModelConfig& model,
                          const std::string& name) const;
  void shard_parameter(const plait_parameter& p, Parameter& q) const;
  std::vector<ValueId> named_inputs(const config::ItemConfig& entry,
                                    const std::vector<std::string>& from);
  std::string local_name(const std::string& name) const;
  std::vector<std::string> known_names() const;
  void note_index_ranges();
  void lower_precision();
  std::span<const plait_field> fields() const;
  bool training() const { return mode_ == TraceMode::kTraining || mode_ == TraceMode::kObserved; }

  PlanDraft& plan_;
  Feed& feed_;
  TraceSource source_;
  TraceMode mode_;
  StageOf stage_of_;
  config::Problems* problems_;
  const bool is_first_;  // of the traces of the plan
  std::unique_ptr<Graph> graph_;
  program::BuildHooks hooks_;
  std::string model_;                      // the one being traced
  std::string block_;                      // of the layer being traced: "p3.", or ""
  std::map<std::string, ValueId> values_;  // "model.name", and the weight by its bare name
  std::map<std::string, ValueId> layers_;  // the first output of each: "model.p3.norm"
  std::map<std::string, ValueId> fields_;  // as they come
  std::map<uint64_t, std::pair<ValueId, ValueId>>
      column_numbers_;                         // by offset: mean and inverse of a Normalization
  std::map<std::string, ValueId> parameters_;  // by full name
  std::map<std::string, size_t, std::less<>>
      registered_;                             // by full name: index into Plan::parameters
  std::map<std::string, int> random_streams_;  // how many a scope has used
  std::vector<ValueId> last_;                  // outputs of the layer before
  ValueId counter_ = 0;
  std::vector<std::pair<size_t, size_t>> wide_ops_;  // of losses and metrics
  std::vector<Result> results_;
  std::vector<MetricState> metric_states_;
  std::vector<AdapterTarget> adapter_targets_;
  std::vector<AdaptedTarget> adapted_targets_;
  std::vector<LossTerm> terms_;                // of the model being traced
  std::map<std::string, uint32_t> n_targets_;  // by key_of(): met so far
  std::set<std::string> with_terms_;           // key_of() of adapters whose methods wrote one
  bool counted_late_ = false;
  std::map<int32_t, std::string> adapted_ops_;  // by op: the target that it is, or is written for
  std::map<ValueId, bool> shared_;              // see is_shared(): what is known so far
  std::vector<LayerOutput> layer_outputs_;
  std::vector<std::pair<std::string, ValueId>> outputs_;

  // After a failure.
  std::set<ValueId> poison_values_;  // values whose shape may be wrong
  std::set<std::string> failed_models_, failed_scopes_;
  // Of the entry that is being built.
  std::string plugin_;     // whose item is built
  bool poisoned_ = false;  // it reads an unknown value: what fails may follow from that
  std::vector<std::string> requested_;              // parameters of the layer
  std::map<ValueId, std::string> used_;             // the layer's own names of them, by value
  const config::AdapterConfig* adapter_ = nullptr;  // whose method is written
  std::string target_name_, owner_;                 // with it: TARGET, and TARGET.ADAPTER
  std::string adapted_;       // what adapters are applied to: the parameter, or the layer
  std::string weight_owner_;  // with adapter_: ADAPTED.ADAPTER
  std::string random_owner_;  // with adapter_: TARGET.METHOD
  struct ErrorSite {
    config::Origin origin;
    std::string path;
  };
  std::optional<ErrorSite> error_site_;  // the key that is being looked at
};

// Traces all models as they train, or as they are evaluated. stages: of each layer. problems: where
// what fails goes; null: it is thrown.
std::unique_ptr<Tracer> trace_models(PlanDraft& plan, bool training, const StageOf& stages,
                                     config::Problems* problems = nullptr);
// The same for statistics of a training step, on a rank that has all layers.
std::unique_ptr<Tracer> trace_observed(PlanDraft& plan);

}  // namespace plait::plan

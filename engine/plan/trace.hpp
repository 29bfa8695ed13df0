// Tracing: the models of an experiment, written by their layers into one program.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/program/c_builder.hpp"

namespace plait::plan {

using program::Graph;
using program::ValueId;

// The stage of the pipeline that a model's layer belongs to; the losses are asked for behind the last layer.
using StageOf = std::function<int32_t(size_t model, size_t layer)>;

// One pass over all models, for training or for evaluation. Parameters are registered in the plan when they are first met.
class Tracer {
 public:
  Tracer(Plan& plan, Feed& feed, const Dataset& dataset, const config::DatasetConfig& data_config,
         bool training, StageOf stage_of);

  // Traces every model; a failure is thrown as an Error whose text begins with the entry's place in the file.
  void run();

  Graph& graph() { return *graph_; }
  const Graph& graph() const { return *graph_; }
  std::unique_ptr<Graph> take_graph() { return std::move(graph_); }

  // Results, by index of the experiment's models.
  struct Result {
    ValueId loss_sum = 0, weight_sum = 0;  // 0: the model has no loss
    ValueId output = 0;
  };
  const std::vector<Result>& results() const { return results_; }
  struct MetricState {
    std::string name;
    const plait_metric_item* item;
    ValueId state;
  };
  const std::vector<MetricState>& metric_states() const { return metric_states_; }
  // Values that layers named with `as`, and "output" (of the last layer).
  const std::vector<std::pair<std::string, ValueId>>& outputs() const { return outputs_; }
  // The parameter's value in this program; 0 when the program does not read it.
  ValueId parameter_value(const std::string& name) const;
  // The values that tensor ranks share, and along which dimension. The program is written as if they did not.
  const std::map<ValueId, int32_t>& shared() const { return shared_; }

 private:
  void trace_model(size_t m);
  void trace_layer(const config::ModelConfig& model, const config::LayerConfig& layer);
  void trace_losses(size_t m);
  void trace_metrics(size_t m);
  ValueId field_value(const std::string& name);
  ValueId normalized(const std::string& field, ValueId raw);
  ValueId named(const std::string& name);
  ValueId default_target();
  ValueId random_uniform(ValueId like);
  ValueId parameter(const plait_parameter& p, const config::ModelConfig& model,
                    const config::LayerConfig& layer);
  void share_out(const plait_parameter& p, Parameter& q) const;
  std::vector<ValueId> inputs(const std::vector<std::string>& from,
                              const std::vector<ValueId>& fallback);
  std::vector<std::string> known_names() const;
  void note_bounds();

  Plan& plan_;
  Feed& feed_;
  const Dataset& dataset_;
  const config::DatasetConfig& data_config_;
  bool training_;
  StageOf stage_of_;
  std::unique_ptr<Graph> graph_;
  program::BuildHooks hooks_;
  std::string model_;                          // the one being traced
  std::map<std::string, ValueId> values_;      // "model.name", and the weight by its bare name
  std::map<std::string, ValueId> fields_;      // as they come
  std::map<std::string, ValueId> parameters_;  // by full name
  std::map<ValueId, int32_t> shared_;
  std::map<std::string, int> random_streams_;  // how many a scope has used
  std::vector<ValueId> last_;                  // outputs of the layer before
  ValueId counter_ = 0, weight_ = 0;
  std::vector<Result> results_;
  std::vector<MetricState> metric_states_;
  std::vector<std::pair<std::string, ValueId>> outputs_;
};

}  // namespace plait::plan

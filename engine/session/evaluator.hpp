// Evaluation and prediction: batches of a dataset, or samples of the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/session/evaluation.hpp"
#include "engine/session/feeder.hpp"
#include "engine/session/host_buffer.hpp"
#include "engine/session/session_context.hpp"
#include "engine/session/step_runner.hpp"

namespace plait::session {

// The output of that name. Errors: PLAIT_ERR_NOT_FOUND; PLAIT_ERR_CONFIG for one that the plan
// keeps no memory for.
const plan::Output& output_of(const plan::Plan& plan, const std::string& value);

// Owner thread only; every rank makes the same calls in the same order.
class Evaluator {
 public:
  Evaluator(SessionContext& context, StepRunner& steps);

  Evaluation evaluate(const std::string& dataset, int64_t max_batches);  // 0: all of it
  void predict(const std::vector<HostField>& fields, const std::vector<Prediction>& values);
  const std::optional<Evaluation>& last() const { return last_; }  // none since the last load
  void forget() { last_.reset(); }
  // Takes back what last() was before a measurement.
  void remember(std::optional<Evaluation> last) { last_ = std::move(last); }

 private:
  Evaluation evaluate_shard(const plan::Dataset& dataset, int64_t max_batches);
  void warn_without_loss(const Evaluation& e, const std::vector<std::string>& models) const;
  double loss_of(size_t model, const std::vector<double>& totals) const;
  double perplexity(const Evaluation& e) const;
  void launch(const plan::EntryPoint& entry, Feeder& feeder);
  void sum_over_replicas(std::vector<double>& totals);

  SessionContext& c_;
  StepRunner& steps_;
  const plan::EntryPoint &batch_, &predict_;
  const plan::EntryPoint* const end_;  // of an evaluation; null on a single rank
  HostBuffer results_;
  std::optional<Evaluation> last_;
};

}  // namespace plait::session

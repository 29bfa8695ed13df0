// Times of a profile (plait_session_profile(), `plait profile --to`), for plans of the same model
// in another layout: of each op the median of its calls.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json_value.hpp"
#include "engine/plan/plan.hpp"

namespace plait::plan {

// The kernel or collective of a program, as a row of a profile names it.
struct MeasuredOp {
  std::string scope, op, pass;
  std::string collective;  // its name; "": a kernel
  std::vector<std::string> inputs, outputs;
};
MeasuredOp measured_op(const Plan& plan, const Program& program, const KernelCall& call);

class MeasuredTimes {
 public:
  // Errors: PLAIT_ERR_DATA with what is wrong in the text.
  explicit MeasuredTimes(std::string_view profile);

  // Refuses a plan whose ops take other times: of another model, device, sharding or micro-batch.
  // Errors: PLAIT_ERR_CONFIG naming the first difference, and the key that removes it.
  void compare(const Plan& plan) const;
  // What may be different, and makes times of this plan less certain: a sentence each.
  std::vector<std::string> doubts(const Plan& plan) const;

  // Seconds of a call; nullopt: nothing like it was measured. An op is first looked up in its pass,
  // then in any: an op of the forward pass may be computed in the backward program of a stage. Of
  // kernels the mean of the ranks counts; of collectives the least, as the others have waited.
  std::optional<double> seconds_of(const MeasuredOp& op) const;

  double step_seconds() const { return step_seconds_; }      // of the profile, on rank 0
  double launch_seconds() const { return launch_seconds_; }  // outside of kernels, for each launch
  std::optional<double> message_seconds() const { return message_seconds_; }
  int64_t steps() const { return runs_; }
  int32_t ranks() const { return static_cast<int32_t>(ranks_); }
  int64_t pipeline() const { return pipeline_; }
  const std::string& schedule() const { return schedule_; }  // "": no pipeline

 private:
  struct LayerText {
    std::string name, type, output;
  };
  struct Seconds {
    double sum = 0, least = 0;
    int64_t ranks = 0;
  };
  void read_rank(const JsonValue& rank);
  void compare_layers(const Plan& plan) const;

  std::string device_, schedule_;
  bool by_launches_ = false;  // the device records: threads of the host do not compute
  int64_t threads_ = 0, runs_ = 0, ranks_ = 1;
  int64_t pipeline_ = 1, data_ = 1, tensor_ = 1, zero_ = 0, micro_batch_ = 0;
  bool sequence_ = false;
  std::vector<LayerText> layers_;
  double step_seconds_ = 0, launch_seconds_ = 0;
  std::optional<double> message_seconds_;
  std::map<std::string, Seconds> exact_, loose_;  // by key, with the pass and without
};

}  // namespace plait::plan

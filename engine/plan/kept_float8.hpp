// Weights of 8-bit products that a step quantizes once for all of its micro-batches: numbers and
// scales lie beside the parameters, and a program of its own makes them before the first forward
// pass.
//
// With ZeRO 3, in a pipeline, and where tensor ranks compare magnitudes for a scale, each
// micro-batch quantizes for itself; evaluations always do.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/plan/step_programs.hpp"

namespace plait::plan {

class KeptFloat8 {
 public:
  // Lets a program read kept numbers in place of quantizing weights; makes their memory where it is
  // the first that does. Where a step has one micro-batch it changes nothing.
  void read_from(PlanDraft& plan, TracedStep& step);
  // The program that makes them; null where none are kept.
  std::unique_ptr<program::Graph> write(const Plan& plan) const;

 private:
  struct Weight {
    std::string name;
    plait_shape shape{};
    BufferRef from;                 // the parameter, or its copy
    program::Attrs most, quantize;  // attributes of the two ops
    std::string key;                // of these
    plait_shape numbers_shape{}, scale_shape{};
    BufferRef numbers, scale;
  };
  const Weight& weight_of(PlanDraft& plan, const program::Graph& g, size_t quantize, size_t most);

  int32_t segment_ = -1;
  std::vector<Weight> weights_;
};

}  // namespace plait::plan

// The order of actions on one rank, by method. Used by make_schedule(), which has checked the
// numbers.
#pragma once

#include <vector>

#include "engine/topology/schedule.hpp"

namespace plait::topology {

// All forward passes, chunk by chunk. Any V.
std::vector<Action> forward_only(const PipelineShape& shape, int32_t micro_batches);

// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
// NeurIPS 2019 (arXiv:1811.06965), section 2.2, with backward passes in the order of the forward
// ones. V = 1.
std::vector<Action> gpipe(int32_t micro_batches);

// Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019;
// flushed every step as in "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", SC 2021 (arXiv:2104.04473), section 2.2.1. Rank p runs P - p - 1 forward passes
// ahead. V = 1.
std::vector<Action> one_forward_one_backward(const PipelineShape& shape, int32_t rank,
                                             int32_t micro_batches);

// Narayanan et al. 2021 (above), section 2.2.2: micro-batches pass through the chunks in groups,
// and rank p runs 2 (P - p - 1) + (V - 1) G forward passes ahead, where G is the size of the
// largest group. The paper requires groups of P; if P does not divide M, these groups have P to 2P
// - 1 members, as even as possible, because smaller ones would stall or block. V = 1 is 1F1B.
std::vector<Action> interleaved(const PipelineShape& shape, int32_t rank, int32_t micro_batches);

// Qi, Wan, Huang and Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv:2401.10241, 2023),
// section 2, schedule ZB-H1: as 1F1B, but rank p delays p weight gradients and computes them while
// it would wait for the last backward passes. With F, B, W of equal cost the idle time is (P - 1)(F
// + B - W), a third of that of 1F1B. V = 1.
std::vector<Action> zero_bubble(const PipelineShape& shape, int32_t rank, int32_t micro_batches);

}  // namespace plait::topology

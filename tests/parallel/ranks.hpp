// Ranks as threads of one process, each with an engine of its own, which train together.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <plait/plait.hpp>
#include <string>
#include <vector>

#include "tests/parallel/models.hpp"

namespace parallel {

using Weights = std::map<std::string, std::vector<double>>;  // by parameter
// What one rank saw.
struct Outcome {
  std::vector<double> losses, norms;
  int64_t samples = 0;
  Weights initial, weights;       // before the first step, behind the last one
  std::string evaluation;         // JSON, without its duration
  double planned = 0, arena = 0;  // bytes of the device: what the plan says, what the session took
  double planned_gradients = 0, shared = 0;  // of them: gradients, and memory that other ranks map
  uint32_t code = PLAIT_OK;                  // of the error that ended it
  std::string error;
};

// What a rank does with its session; fills what it likes of the outcome.
using Body = std::function<void(uint32_t rank, plait::Session&, Outcome&)>;

// `ranks` sessions of the experiment at once; settings[r] where given, else without files. Rank r's
// overrides follow the common ones. job may change what rank r says of itself; plugins: files
// besides the tree's own; plugins_of_rank: in place of those, for rank r.
struct JobSpec {
  std::string toml;
  std::vector<std::string> overrides;
  std::map<uint32_t, std::vector<std::string>> of_rank;
  std::function<plait::SessionSettings(uint32_t rank)> settings;
  std::function<void(uint32_t rank, plait::JobSettings&)> job = nullptr;
  std::vector<std::string> plugins = {};
  std::map<uint32_t, std::vector<std::string>> plugins_of_rank = {};
};
std::vector<Outcome> run(const JobSpec& job_spec, uint32_t ranks, const Body& body);

// All parameters, whole.
Weights weights_of(const plait::Session& session);
// The loss of an evaluation on "eval".
double loss_of_evaluation(plait::Session& session);

// Initial weights, n steps; then weights and an evaluation.
Body train(int n);

// The plan of rank 0 of so many, as it describes itself. It throws what is wrong with it.
std::string plan_of(const JobSpec& job_spec, uint32_t ranks);

// How far two runs are from each other: the worst of all steps and of all parameters, relative.
struct Difference {
  double losses = 0, norms = 0, weights = 0;
  void include(const Difference& other);
};

// Losses and norms of each step are within `tolerance` of the expected ones.
Difference check_metrics(const Outcome& got, const Outcome& expected, double tolerance = 1e-5);

// All ranks of `got` saw the same bits and took the memory that was planned. Where `expected` has
// initial weights, theirs are the same bits. Figures and weights are within `tolerance` of it:
// weights relative to the largest one of their tensor, as an element near zero is a difference of
// larger numbers.
Difference check_same(const std::vector<Outcome>& got, const Outcome& expected,
                      double tolerance = 1e-5);

// The same bits in all that a run gives.
void check_equal(const Outcome& a, const Outcome& b);

}  // namespace parallel

// Ranks that compute longer than the others, which wait for them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/session/host_buffer.hpp"

namespace plait::session {

// The compute time of a step, over the ranks; waits for collectives do not count. From the first
// step that tells it on.
struct BusyTimes {
  double median_ms = 0;               // of the slowest rank's stage
  double slowest_ms = 0;              // of the rank that is furthest above the median of its stage
  int32_t slowest = -1, median = -1;  // ranks; of the first with the median time
};

// Owner thread only. All ranks see the same sums, so all of them come to the same. Stages of a
// pipeline may differ, so a rank is compared with those of its stage.
class Stragglers {
 public:
  // The plan outlives it.
  explicit Stragglers(const plan::Plan& plan);
  // Adds what a step's results tell. Does not allocate.
  void add(const HostBuffer& results);
  // Of the steps since begin(); nullopt: nothing is known.
  std::optional<BusyTimes> times();
  void begin();
  // A rank that has been much slower than its stage over some seconds of steps, in sum and in many
  // of them; nullopt if none is,
  // or if the last one was told of less than ten minutes of steps ago. Begins to observe anew.
  std::optional<BusyTimes> slow();

 private:
  struct Window {
    std::vector<double> seconds;  // by rank
    int64_t steps = 0;
    double time = 0;  // of the slowest rank in each step
  };
  std::optional<BusyTimes> times_of(const Window& window);
  double median(std::span<const double> seconds);
  size_t in_stage() const;

  const plan::Plan& plan_;
  Window line_, observed_;
  std::vector<int64_t> often_;  // by rank, how many observed steps were much slower than the median
  std::vector<double> step_;    // seconds of one step, by rank
  std::vector<double> sorted_;  // of a stage
  double silent_ = 0;           // seconds of steps until the next warning
};

}  // namespace plait::session

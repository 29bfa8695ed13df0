// What was measured of some steps or batches, as JSON: a table of ops, and events for a viewer.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/runtime/executor.hpp"

namespace plait::session {

// Of one rank.
struct Measured {
  std::string entry_point;
  int64_t runs = 0;       // steps or batches
  double seconds = 0;     // of all runs, from the wait for data to the results
  double peak_flops = 0;  // of this rank's device, per second; 0: not known
  bool waits = false;     // the device records, and the host waited for each call
  std::vector<runtime::Executor::TimedCall> calls;
};

// What rank 0 knows of a job beside its own calls.
struct OtherRanks {
  std::vector<std::string> tables;  // rank_json() of ranks 1, 2, ...
  std::vector<double> messages;     // seconds of each message (message_times.hpp)
};

// The object that plait_session_profile() returns. Calls of the same op on the same shapes in one
// layer and pass are one row; lists begin with the row that took longest. Bytes: of all operands,
// each once; of a table of which rows are looked up the rows.
std::string profile_json(const plan::Plan& plan, const Measured& measured,
                         const OtherRanks& others = {});
// The part of it that rank 0 adds to its own: totals and rows.
std::string rank_json(const plan::Plan& plan, const Measured& measured);

// Seconds of the kernels by op, layer and pass, "matmul of model.linear1 (forward)", the longest
// first. Collectives, which wait for other ranks, are left out.
std::vector<std::pair<std::string, double>> op_seconds(
    const std::vector<runtime::Executor::TimedCall>& calls);

// The events of a rank as members of a JSON list, without its brackets, for Chrome's trace viewer
// (Trace Event Format): complete events in microseconds since origin_ns.
std::string trace_events(const plan::Plan& plan, const Measured& measured, uint64_t origin_ns);
// The whole file from the events of all ranks.
std::string trace_json(const std::vector<std::string>& events);

}  // namespace plait::session

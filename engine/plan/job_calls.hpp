// The calls that one rank makes to its groups: what is left of a plan when all else is dropped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::plan {

// A collective that a program starts or waits for.
struct JobCall {
  int32_t collective = 0;  // index into RankCalls::collectives
  bool starts = false;     // else it waits for the end
  int32_t slot = -1;       // -1: that of the launch
  bool operator==(const JobCall&) const = default;
};

struct ProgramCalls {
  std::string name;
  std::vector<JobCall> calls;  // in the order in which the program makes them
  bool operator==(const ProgramCalls&) const = default;
};

// Memory that all members of a group map together when a session opens.
struct SharedMemory {
  std::string name;
  topology::Axis axis = topology::Axis::kData;
  uint64_t bytes = 0;
  bool operator==(const SharedMemory&) const = default;
};

// The launches of an entry point.
struct EntryCalls {
  std::string name, call;  // as EntryPoint
  OpenCalls leaves = OpenCalls::kOthers;
  std::vector<Launch> launches;
  bool operator==(const EntryCalls&) const = default;
};

struct RankCalls {
  std::vector<Collective> collectives;   // as Plan::collectives
  std::vector<ProgramCalls> programs;    // as Plan::programs
  std::vector<EntryCalls> entry_points;  // as Plan::entry_points
  std::vector<SharedMemory> shared;      // in order
  bool operator==(const RankCalls&) const = default;
};

RankCalls calls_of(const Plan& plan);

}  // namespace plait::plan

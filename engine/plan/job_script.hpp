// A rank's calls as one list: session opened, then its entry points. Of verify_job.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/job_calls.hpp"

namespace plait::plan {

// Where a call is made; for messages.
struct CallSite {
  std::string call;  // "a step"
  std::string program;
  int64_t micro = -1;  // of a program that runs for several micro-batches; -1: of another
};

// "program 'backward of stage 1' of a step, micro-batch 3".
std::string text(const CallSite& site);

struct ScriptCall {
  int32_t collective = 0;  // index into JobScript::collectives
  int32_t ticket = 0;      // one for each pair of collective and slot
  uint32_t site = 0;       // index into JobScript::sites
  bool starts = false;
};

struct JobScript {
  std::vector<Collective> collectives;  // the plan's, and one for each piece of shared memory
  std::vector<ScriptCall> calls;
  std::vector<CallSite> sites;
  size_t first_step = 0, after_first_step = 0;  // calls of the first step: [first, after)
  int32_t tickets = 0;
  std::string fault;  // what is wrong with this rank alone; ""
};

// Every way from one entry point to another once, see verify_job().
JobScript script_of(const RankCalls& calls);

}  // namespace plait::plan

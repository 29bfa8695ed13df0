#include "engine/plan/job_script.hpp"

#include <algorithm>
#include <map>

#include "engine/base/text.hpp"
#include "engine/plan/collectives.hpp"

namespace plait::plan {
namespace {

enum class Phase { kStep, kBatch, kEnd, kOutputs };

// What is sent in a batch of an evaluation is waited for by the next batch or the end. So a phase
// begins with nothing under way, or with these messages: after a prediction also a step does. The
// list has each phase with both, as far as they come about.
constexpr Phase kPhases[] = {Phase::kStep,    Phase::kStep,  Phase::kBatch,   Phase::kBatch,
                             Phase::kEnd,     Phase::kBatch, Phase::kOutputs, Phase::kBatch,
                             Phase::kOutputs, Phase::kStep,  Phase::kStep,    Phase::kBatch,
                             Phase::kEnd,     Phase::kEnd,   Phase::kStep};

class ScriptWriter {
 public:
  explicit ScriptWriter(const RankCalls& calls) : from_(calls) {
    script_.collectives = calls.collectives;
  }

  JobScript write() {
    share_memory();
    for (const Phase phase : kPhases) {
      phase_begin_ = script_.calls.size();
      const bool first = phase == Phase::kStep && script_.after_first_step == 0;
      if (first) script_.first_step = phase_begin_;
      add(phase);
      if (first) script_.after_first_step = script_.calls.size();
      check_end(phase);
    }
    script_.tickets = static_cast<int32_t>(tickets_.size());
    return std::move(script_);
  }

 private:
  void share_memory() {
    uint32_t site = static_cast<uint32_t>(script_.sites.size());
    script_.sites.push_back({"opening a session", "", -1});
    for (const SharedMemory& m : from_.shared) {
      Collective c;
      c.name = "shared memory for " + m.name;
      c.axis = m.axis;
      c.n = m.bytes;
      c.dtype = PLAIT_U8;
      script_.collectives.push_back(std::move(c));
      const auto id = static_cast<int32_t>(script_.collectives.size()) - 1;
      add_call({id, true, 0}, 0, site);
      add_call({id, false, 0}, 0, site);
    }
  }

  void add(Phase phase) {
    switch (phase) {
      case Phase::kStep:
        return add_launches("a step", from_.step);
      case Phase::kBatch:
        return add_launches("a batch of an evaluation", from_.evaluation);
      case Phase::kEnd:
        return add_program("the end of an evaluation", from_.reduce_metrics);
      case Phase::kOutputs:
        return add_program("a prediction", from_.broadcast_outputs);
    }
  }

  void add_launches(const char* phase, const std::vector<Launch>& launches) {
    std::map<int32_t, int> times;
    for (const Launch& l : launches) ++times[l.program];
    for (const Launch& l : launches)
      if (l.program >= 0) add_launch(phase, l, times[l.program] > 1);
  }
  void add_program(const char* phase, int32_t program) {
    if (program >= 0) add_launch(phase, {program, 0, -1, -1}, false);
  }
  void add_launch(const char* phase, const Launch& launch, bool several) {
    const ProgramCalls& program = from_.programs.at(static_cast<size_t>(launch.program));
    const auto site = static_cast<uint32_t>(script_.sites.size());
    script_.sites.push_back({phase, program.name, several ? launch.micro : -1});
    for (const JobCall& call : program.calls) add_call(call, launch.slot, site);
  }

  void add_call(const JobCall& call, int32_t slot, uint32_t site) {
    const Collective& c = script_.collectives.at(static_cast<size_t>(call.collective));
    const int32_t own = !c.slotted ? 0 : call.slot >= 0 ? call.slot : slot;
    const auto [at, fresh] =
        tickets_.try_emplace({call.collective, own}, static_cast<int32_t>(tickets_.size()));
    if (fresh) open_.push_back(kNone);
    size_t& open = open_[static_cast<size_t>(at->second)];
    if (call.starts && open != kNone && script_.fault.empty())
      script_.fault = strf("starts %s '%s' in %s, but has not waited for its last start, in %s",
                           kind_name(c.kind), c.name.c_str(), text(script_.sites[site]).c_str(),
                           text(script_.sites[script_.calls[open].site]).c_str());
    open = call.starts ? script_.calls.size() : kNone;
    script_.calls.push_back({call.collective, at->second, site, call.starts});
  }

  // Nothing that a step started is under way at its end, and nothing at all at that of an
  // evaluation.
  void check_end(Phase phase) {
    if (phase != Phase::kStep && phase != Phase::kEnd) return;
    for (const size_t open : open_) {
      if (open == kNone || (phase == Phase::kStep && open < phase_begin_)) continue;
      const ScriptCall& call = script_.calls[open];
      const Collective& c = script_.collectives[static_cast<size_t>(call.collective)];
      if (script_.fault.empty())
        script_.fault = strf("starts %s '%s' in %s, but never waits for its end", kind_name(c.kind),
                             c.name.c_str(), text(script_.sites[call.site]).c_str());
    }
  }

  static constexpr size_t kNone = SIZE_MAX;
  const RankCalls& from_;
  JobScript script_;
  std::map<std::pair<int32_t, int32_t>, int32_t> tickets_;  // by collective and slot
  std::vector<size_t> open_;  // by ticket: the call that started what is under way
  size_t phase_begin_ = 0;
};

}  // namespace

std::string text(const CallSite& site) {
  if (site.program.empty()) return site.phase;
  return "program '" + site.program + "' of " + site.phase +
         (site.micro >= 0 ? strf(", micro-batch %ld", static_cast<long>(site.micro)) : "");
}

JobScript script_of(const RankCalls& calls) { return ScriptWriter(calls).write(); }

}  // namespace plait::plan

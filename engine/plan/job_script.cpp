#include "engine/plan/job_script.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/text.hpp"

namespace plait::plan {
namespace {

// Each of n entry points behind each of them, itself included: an Euler circuit through all n * n
// pairs, as a de Bruijn sequence of order 2. So each runs with nothing under way, and with the
// messages that others leave.
std::vector<size_t> all_pairs(size_t n) {
  std::vector<size_t> order;
  for (size_t i = 0; i < n; ++i) {
    order.push_back(i);
    for (size_t k = i + 1; k < n; ++k) order.insert(order.end(), {i, k});
  }
  if (n > 0) order.push_back(0);
  return order;
}

class ScriptWriter {
 public:
  explicit ScriptWriter(const RankCalls& calls) : from_(calls) {
    script_.collectives = calls.collectives;
  }

  JobScript write() {
    share_memory();
    bool stepped = false;
    for (const size_t i : all_pairs(from_.entry_points.size())) {
      const EntryCalls& entry = from_.entry_points[i];
      entry_begin_ = script_.calls.size();
      add_launches(entry);
      if (entry.name == kTrainStep && !std::exchange(stepped, true)) {
        script_.first_step = entry_begin_;
        script_.after_first_step = script_.calls.size();
      }
      check_end(entry.leaves);
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

  void add_launches(const EntryCalls& entry) {
    std::map<int32_t, int> times;
    for (const Launch& l : entry.launches) ++times[l.program];
    for (const Launch& l : entry.launches)
      if (l.program >= 0) add_launch(entry.call, l, times[l.program] > 1);
  }
  void add_launch(const std::string& of, const Launch& launch, bool several) {
    const ProgramCalls& program = from_.programs.at(static_cast<size_t>(launch.program));
    const auto site = static_cast<uint32_t>(script_.sites.size());
    script_.sites.push_back({of, program.name, several ? launch.micro : -1});
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

  void check_end(OpenCalls leaves) {
    if (leaves == OpenCalls::kMessages) return;
    for (const size_t open : open_) {
      if (open == kNone || (leaves == OpenCalls::kOthers && open < entry_begin_)) continue;
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
  size_t entry_begin_ = 0;
};

}  // namespace

std::string text(const CallSite& site) {
  if (site.program.empty()) return site.call;
  return "program '" + site.program + "' of " + site.call +
         (site.micro >= 0 ? strf(", micro-batch %ld", static_cast<long>(site.micro)) : "");
}

JobScript script_of(const RankCalls& calls) { return ScriptWriter(calls).write(); }

}  // namespace plait::plan

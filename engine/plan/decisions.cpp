#include "engine/plan/decisions.hpp"

#include <map>
#include <utility>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/shape.hpp"

namespace plait::plan {
namespace {

// "map by 'jit' 3, matmul by 'gemm' 2, all_reduce 1".
std::string kernels_of(const Plan& plan, const Program& program) {
  std::map<std::string, int> counts;
  for (const KernelCall& c : program.calls) {
    const std::string& op = program.graph->ops()[static_cast<size_t>(c.op)].name;
    if (c.kernel)
      ++counts[op + " by '" + c.kernel->name + "'"];
    else if (c.collective >= 0)
      ++counts[kind_name(plan.collectives.at(static_cast<size_t>(c.collective)).kind)];
  }
  std::vector<std::string> all;
  for (const auto& [what, n] : counts) all.push_back(what + " " + std::to_string(n));
  return join(all);
}

void tell_collectives(const Plan& plan, Log& log) {
  struct Sum {
    int calls = 0;
    uint64_t bytes = 0;
  };
  std::map<std::pair<topology::Axis, uint32_t>, Sum> sums;  // by axis and kind
  for (const Collective& c : plan.collectives) {
    Sum& sum = sums[{c.axis, c.kind}];
    ++sum.calls;
    sum.bytes += c.n * program::dtype_bytes(c.dtype);
  }
  for (const auto& [of, sum] : sums)
    log.debug("[plan] " + std::to_string(sum.calls) + " " + kind_name(of.second) + " over axis " +
              topology::axis_name(of.first) + ", of " + human_bytes(sum.bytes) + " in all");
}

}  // namespace

void tell_phases(const Plan& plan, const std::vector<Phase>& phases, Log* log) {
  if (!log) return;
  log->debug([&] {
    double seconds = 0;
    std::vector<std::string> all;
    for (const Phase& p : phases) {
      seconds += p.seconds;
      all.push_back(p.name + " " + duration_text(p.seconds));
    }
    return strf(
               "[plan] rank %d of %d (pipeline %d, data %d, tensor %d), device '%s', %u thread%s: "
               "made in ",
               plan.rank, plan.grid.ranks(), plan.at.pipeline, plan.at.data, plan.at.tensor,
               plan.device.c_str(), plan.threads, plan.threads == 1 ? "" : "s") +
           duration_text(seconds) + " (" + join(all) + ")";
  });
}

void tell_decisions(const Plan& plan, Log& log) {
  if (!log.wants(PLAIT_LOG_DEBUG)) return;
  for (const Program& p : plan.programs)
    log.debug("[plan] program " + p.name + ": " + std::to_string(p.calls.size()) + " calls (" +
              kernels_of(plan, p) + "), " + real_text(p.flops, "%.4g") + " FLOPs, " +
              human_bytes(p.transient_bytes) + " of transient memory");
  tell_collectives(plan, log);
}

}  // namespace plait::plan

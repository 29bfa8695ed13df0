#include "engine/session/slow_ops.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "engine/base/text.hpp"
#include "engine/session/profile_report.hpp"

namespace plait::session {
namespace {

constexpr int64_t kSteps = 4;
constexpr size_t kMostBytes = 48 * 1024;  // the control channel takes values of 64 KiB

std::string encoded(const OpSeconds& ops) {
  std::string text;
  for (const auto& [name, seconds] : ops) {
    const std::string line = strf("%.9g ", seconds) + name + "\n";
    if (text.size() + line.size() > kMostBytes) break;
    text += line;
  }
  return text;
}

OpSeconds decoded(const std::string& text) {
  OpSeconds ops;
  for (const std::string& line : split(text, '\n'))
    if (const size_t space = line.find(' '); space != std::string::npos)
      ops.emplace_back(line.substr(space + 1), std::strtod(line.c_str(), nullptr));
  return ops;
}

// " Most of ...": what the measured steps tell; "": nothing.
std::string reason(const BusyTimes& slow, const OpSeconds& own, const OpSeconds& other,
                   int64_t steps) {
  if (own.empty() || other.empty()) return "";
  std::map<std::string, double> others(other.begin(), other.end());
  double more = 0, most = 0;
  const std::pair<std::string, double>* op = nullptr;
  for (const auto& one : own) {
    const double extra = one.second - others[one.first];
    more += extra;
    if (extra > most) most = extra, op = &one;
  }
  const double ms = 1e3 / static_cast<double>(steps);
  // Kernels explain a part at least of what the rank takes longer.
  if (!op || more * ms < (slow.slowest_ms - slow.median_ms) / 4)
    return strf(". Its kernels take as long as those of rank %d, so the time passes between them",
                slow.median);
  return strf(". %s %s: %.3g ms of a step, %.3g ms on rank %d",
              most > more / 2 ? "Most of it is in" : "Its kernels are slower, most of all",
              op->first.c_str(), op->second * ms, others[op->first] * ms, slow.median);
}

}  // namespace

std::string slow_rank_text(const topology::Grid& grid, const BusyTimes& slow, const OpSeconds& own,
                           const OpSeconds& other, int64_t steps) {
  const topology::Coordinates at = grid.at(slow.slowest);
  return strf(
             "[session] rank %d (pipeline %d, data %d, tensor %d) is slow: it computes for %.3g ms "
             "of a step, the median of its stage is %.3g ms, and the others wait",
             slow.slowest, at.pipeline, at.data, at.tensor, slow.slowest_ms, slow.median_ms) +
         reason(slow, own, other, steps) +
         "; see whether its machine is busy or throttled, and `plait profile`";
}

void SlowOps::begin(const BusyTimes& slow) {
  slow_ = slow;
  left_ = kSteps;
  calls_.clear();
}

std::string SlowOps::report() {
  const int32_t own = c_.plan.rank;
  const bool asked = own == slow_.slowest || own == slow_.median;
  const std::vector<std::string> all =
      c_.ranks.all_gather(asked ? encoded(op_seconds(calls_)) : "");
  const BusyTimes slow = std::exchange(slow_, {});
  calls_ = {};
  if (!c_.ranks.is_leader()) return "";
  const auto of = [&](int32_t rank) { return decoded(all.at(static_cast<size_t>(rank))); };
  return slow_rank_text(c_.plan.grid, slow, of(slow.slowest), of(slow.median), kSteps);
}

std::string SlowOps::give_up() {
  left_ = 0;
  const BusyTimes slow = std::exchange(slow_, {});
  if (slow.slowest < 0 || !c_.ranks.is_leader()) return "";
  return slow_rank_text(c_.plan.grid, slow, {}, {}, kSteps);
}

}  // namespace plait::session

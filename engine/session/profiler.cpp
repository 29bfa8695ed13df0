#include "engine/session/profiler.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/session/message_times.hpp"
#include "engine/session/profile_report.hpp"
#include "engine/session/timing.hpp"

namespace plait::session {
namespace {

// The wall clock's nanoseconds at 0 of the monotonic clock: ranks may be on several machines.
int64_t wall_offset_ns() {
  return static_cast<int64_t>(unix_seconds() * 1e9) - static_cast<int64_t>(monotonic_ns());
}

void measure_steps(SessionParts& parts, const ProfileSettings& s, Measured& into) {
  for (int64_t i = 0; i < s.warm_up; ++i) parts.steps.step();
  const auto runs = static_cast<size_t>(s.runs);
  const Timing timing(parts.context.executor, into.calls,
                      runs * calls_of(parts.context.plan, s.entry_point));
  for (; into.runs < s.runs; ++into.runs) {
    const Stopwatch watch;
    parts.steps.step();
    into.seconds += watch.seconds();
  }
}

void measure_batches(SessionParts& parts, const ProfileSettings& s, Measured& into) {
  struct Last {
    Evaluator& evaluator;
    std::optional<Evaluation> last = evaluator.last();
    ~Last() { evaluator.remember(std::move(last)); }
  } const last{parts.evaluator};
  if (s.warm_up > 0) parts.evaluator.evaluate(s.dataset, s.warm_up);
  const auto runs = static_cast<size_t>(s.runs);
  const Timing timing(parts.context.executor, into.calls,
                      runs * calls_of(parts.context.plan, s.entry_point));
  const Evaluation e = parts.evaluator.evaluate(s.dataset, s.runs);
  const int64_t batch = parts.context.plan.experiment.batch.eval;
  into.runs = std::min(s.runs, (e.samples + batch - 1) / batch);  // the dataset may hold fewer
  into.seconds = e.seconds;
}

// The texts of all ranks, whatever their length: the control channel takes values of 64 KiB.
std::vector<std::string> gather(RankContext& ranks, const std::string& own) {
  constexpr size_t kPiece = 48 * 1024;
  std::vector<std::string> all(static_cast<size_t>(ranks.size()));
  size_t rounds = 0;
  for (const std::string& n : ranks.all_gather(std::to_string((own.size() + kPiece - 1) / kPiece)))
    rounds = std::max<size_t>(rounds, std::strtoull(n.c_str(), nullptr, 10));
  for (size_t i = 0; i < rounds; ++i) {
    const std::vector<std::string> pieces =
        ranks.all_gather(i * kPiece < own.size() ? own.substr(i * kPiece, kPiece) : "");
    if (!ranks.is_leader()) continue;
    for (size_t r = 0; r < all.size(); ++r) all[r] += pieces[r];
  }
  return all;
}

// The tables of the other ranks and the times of messages: on rank 0 alone.
OtherRanks other_ranks(SessionContext& c, const Measured& m) {
  OtherRanks others;
  if (c.ranks.is_single()) return others;
  others.tables = gather(c.ranks, c.ranks.is_leader() ? "" : rank_json(c.plan, m));
  others.tables.erase(others.tables.begin());
  const auto texts = gather(c.ranks, text_of(message_ends(c.plan, m.calls, wall_offset_ns())));
  if (!c.ranks.is_leader()) return {};
  std::vector<std::vector<MessageEnd>> ends;
  for (const std::string& text : texts) ends.push_back(message_ends(text));
  others.messages = message_seconds(ends);
  return others;
}

std::string trace_of_all_ranks(SessionContext& c, const Measured& m) {
  const int64_t offset = wall_offset_ns();
  const uint64_t begin = m.calls.empty() ? monotonic_ns() : m.calls.front().begin_ns;
  const std::string origin =
      c.ranks.broadcast(std::to_string(static_cast<int64_t>(begin) + offset));
  const int64_t own_origin = std::strtoll(origin.c_str(), nullptr, 10) - offset;
  const std::vector<std::string> events = gather(
      c.ranks, trace_events(c.plan, m, static_cast<uint64_t>(std::max<int64_t>(0, own_origin))));
  return c.ranks.is_leader() ? trace_json(events) : "";
}

}  // namespace

Profile profile(SessionParts& parts, const ProfileSettings& settings) {
  SessionContext& c = parts.context;
  Measured m;
  m.entry_point = settings.entry_point;
  m.waits = c.executor.device().records();
  if (settings.entry_point == plan::kTrainStep)
    measure_steps(parts, settings, m);
  else if (settings.entry_point == plan::kEvaluate)
    measure_batches(parts, settings, m);
  else
    fail_not_found("[session] entry point '" + settings.entry_point +
                   "' cannot be measured; there are: " + plan::kTrainStep + ", " + plan::kEvaluate);
  m.peak_flops = parts.steps.peak_flops() / c.ranks.size();
  Profile made;
  c.on_all_ranks("profile", [&] {
    made.table = profile_json(c.plan, m, other_ranks(c, m));
    if (settings.trace) made.trace = trace_of_all_ranks(c, m);
  });
  return made;
}

}  // namespace plait::session

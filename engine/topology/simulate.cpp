#include "engine/topology/simulate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::topology {

namespace {

constexpr double kNotYet = -1;  // times are never negative

class Simulator {
 public:
  Simulator(const Schedule& schedule, const Durations& times, double transfer)
      : schedule_(schedule), times_(times), transfer_(transfer) {
    const size_t passes =
        static_cast<size_t>(schedule.shape.stages()) * static_cast<size_t>(schedule.micro_batches);
    for (std::vector<double>& end : end_) end.assign(passes, kNotYet);
    sent_ = end_;
    timeline_.spans.resize(schedule.actions.size());
  }

  Timeline run() {
    bool any = true;
    while (any) {
      any = false;
      for (int32_t rank = 0; rank < schedule_.shape.ranks; ++rank)
        while (step(rank)) any = true;
    }
    if (std::string text = waiting(); !text.empty())
      fail_invalid("[topology] schedule '" + std::string(schedule_name(schedule_.method)) +
                   "' deadlocks: " + text + "; reorder its actions");
    std::stable_sort(timeline_.transfers.begin(), timeline_.transfers.end(),
                     [](const Transfer& a, const Transfer& b) { return a.used < b.used; });
    return std::move(timeline_);
  }

 private:
  using Times = std::array<std::vector<double>, 3>;  // by kind: index stage * M + micro-batch

  // The dependency of an action: another action and the rank that runs it.
  struct Need {
    int32_t rank;
    Action action;
  };

  double& of(Times& times, int32_t rank, const Action& a) {
    const int32_t stage = schedule_.shape.stage(rank, a.chunk);
    return times[static_cast<size_t>(a.kind)]
                [static_cast<size_t>(stage) * static_cast<size_t>(schedule_.micro_batches) +
                 static_cast<size_t>(a.micro)];
  }

  std::vector<Need> needs(int32_t rank, const Action& action) const {
    std::vector<Need> all;
    if (action.kind == ActionKind::kBackward)
      all.push_back({rank, {action.chunk, ActionKind::kForward, action.micro}});
    if (action.kind == ActionKind::kBackwardWeight)
      all.push_back({rank, {action.chunk, ActionKind::kBackward, action.micro}});
    if (const auto message = received_by(schedule_, rank, action))
      all.push_back({message->from,
                     {schedule_.shape.chunk_of(message->stage), message->kind, message->micro}});
    return all;
  }

  // Runs the rank's next action; false if there is none or it must wait.
  bool step(int32_t rank) {
    const size_t r = static_cast<size_t>(rank);
    std::vector<Span>& spans = timeline_.spans[r];
    if (spans.size() == schedule_.actions[r].size()) return false;
    const Action& action = schedule_.actions[r][spans.size()];
    double begin = spans.empty() ? 0 : spans.back().end;
    for (const Need& need : needs(rank, action)) {
      if (of(end_, need.rank, need.action) == kNotYet) return false;
      begin = std::max(begin, need.rank == rank ? of(end_, rank, need.action)
                                                : of(sent_, need.rank, need.action) + transfer_);
    }
    const Duration& time = times_[r][spans.size()];
    spans.push_back({begin, begin + time.total});
    of(end_, rank, action) = begin + time.total;
    of(sent_, rank, action) = begin + time.sent;
    if (const auto message = received_by(schedule_, rank, action)) note(*message, rank, begin);
    return true;
  }

  void note(const StageMessage& message, int32_t rank, double begin) {
    if (message.from == rank) return;
    const double sent = of(sent_, message.from,
                           {schedule_.shape.chunk_of(message.stage), message.kind, message.micro});
    timeline_.transfers.push_back({message, sent, sent + transfer_, begin});
  }

  std::string waiting() {
    std::vector<std::string> texts;
    for (int32_t rank = 0; rank < schedule_.shape.ranks; ++rank) {
      const size_t r = static_cast<size_t>(rank), at = timeline_.spans[r].size();
      if (at == schedule_.actions[r].size()) continue;
      const Action& action = schedule_.actions[r][at];
      for (const Need& need : needs(rank, action)) {
        if (of(end_, need.rank, need.action) != kNotYet) continue;
        texts.push_back(strf("rank %d at action %zu (%s) waits for rank %d (%s)", rank, at,
                             describe(schedule_, rank, action).c_str(), need.rank,
                             describe(schedule_, need.rank, need.action).c_str()));
        break;
      }
    }
    constexpr size_t kMost = 16;
    if (texts.size() > kMost) {
      const size_t more = texts.size() - kMost;
      texts.resize(kMost);
      texts.push_back(std::to_string(more) + " ranks more");
    }
    return join(texts, ", ");
  }

  const Schedule& schedule_;
  const Durations& times_;
  const double transfer_;
  Times end_, sent_;
  Timeline timeline_;
};

void check_times(const Schedule& schedule, const Durations& times, double transfer) {
  bool same = times.size() == schedule.actions.size();
  for (size_t r = 0; same && r < times.size(); ++r)
    same = times[r].size() == schedule.actions[r].size();
  if (!same) fail_invalid("[topology] durations do not match the schedule; each action needs one");
  const auto good = [](double t) { return t >= 0 && !std::isinf(t); };
  const auto both = [&](const Duration& d) {
    return good(d.total) && good(d.sent) && d.sent <= d.total;
  };
  bool all_good = good(transfer);
  for (const auto& rank : times) all_good = all_good && std::all_of(rank.begin(), rank.end(), both);
  if (!all_good)
    fail_invalid(
        "[topology] a duration is negative or not finite, or its message leaves after its end"
        "; expected 0 or more");
}

void measure_idle(Timeline& t) {
  for (const auto& spans : t.spans)
    if (!spans.empty()) t.total = std::max(t.total, spans.back().end);
  double all = 0;
  for (const auto& spans : t.spans) {
    double busy = 0;
    for (const Span& span : spans) busy += span.end - span.begin;
    t.idle.push_back(t.total > 0 ? 1 - busy / t.total : 0);
    all += t.idle.back();
  }
  t.idle_fraction = all / static_cast<double>(t.idle.size());
}

void measure_links(Timeline& t) {
  // +1 when a message leaves, -1 when it is used; at equal times, departures count first.
  using Event = std::tuple<double, int>;
  std::map<std::tuple<int32_t, int32_t, ActionKind>, std::vector<Event>> events;
  for (const Transfer& transfer : t.transfers) {
    const StageMessage& m = transfer.message;
    auto& of_link = events[{m.from, m.to, m.kind}];
    of_link.push_back({transfer.sent, -1});
    of_link.push_back({transfer.used, +1});
  }
  for (auto& [key, of_link] : events) {
    std::sort(of_link.begin(), of_link.end());
    Link link{std::get<0>(key), std::get<1>(key), std::get<2>(key),
              static_cast<int32_t>(of_link.size() / 2), 0};
    int32_t now = 0;
    for (const auto& [time, order] : of_link) link.peak = std::max(link.peak, now -= order);
    t.links.push_back(link);
  }
}

}  // namespace

Durations durations(const Schedule& schedule, const std::vector<StageCost>& costs) {
  if (costs.size() != static_cast<size_t>(schedule.shape.stages()))
    fail_invalid(strf("[topology] costs of %zu stages, the schedule has %d", costs.size(),
                      schedule.shape.stages()));
  Durations all;
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
    std::vector<Duration>& of_rank = all.emplace_back();
    for (const Action& a : schedule.actions.at(static_cast<size_t>(rank))) {
      const StageCost& cost = costs[static_cast<size_t>(schedule.shape.stage(rank, a.chunk))];
      const double backward =
          schedule.split_backward ? cost.backward : cost.backward + cost.weights;
      switch (a.kind) {
        case ActionKind::kForward:
          of_rank.emplace_back(cost.forward, cost.forward - cost.after_forward);
          break;
        case ActionKind::kBackward:
          of_rank.emplace_back(backward, backward - cost.after_backward);
          break;
        case ActionKind::kBackwardWeight:
          of_rank.emplace_back(cost.weights);
      }
    }
  }
  return all;
}

Durations durations(const Schedule& schedule, const StageCost& cost) {
  return durations(schedule,
                   std::vector<StageCost>(static_cast<size_t>(schedule.shape.stages()), cost));
}

Timeline simulate(const Schedule& schedule, const Durations& times, double transfer) {
  check_complete(schedule);
  check_times(schedule, times, transfer);
  Timeline timeline = Simulator(schedule, times, transfer).run();
  for (int32_t rank = 0; rank < schedule.shape.ranks; ++rank)
    timeline.live.push_back(live_micro_batches(schedule, rank));
  measure_idle(timeline);
  measure_links(timeline);
  return timeline;
}

}  // namespace plait::topology

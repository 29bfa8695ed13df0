#include "engine/plan/verify_job.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <tuple>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/job_script.hpp"

namespace plait::plan {
namespace {

using topology::Axis;

// A start that is not matched yet: by the other members, or by the other end.
struct Half {
  int32_t rank = 0;
  const Collective* call = nullptr;
  const CallSite* site = nullptr;
  int32_t count = 1;  // of the members that have started it
};

// Messages from one member to another, in order.
struct Link {
  uint64_t sent = 0, received = 0;
  std::deque<Half> unmatched;  // of the end that is ahead
  uint64_t ended() const { return std::min(sent, received); }
};

struct Group {
  topology::ProcessGroup members;
  uint32_t channel = 0;
  std::vector<uint64_t> started;  // collectives, by member
  std::deque<Half> rounds;        // collectives that not all members have started
  uint64_t ended = 0;             // collectives
  std::map<std::pair<int32_t, int32_t>, Link> links;  // from, to: members
  std::string name() const { return members.name() + (channel > 0 ? ".back" : ""); }
};

// Where a rank waits in a group.
struct Ticket {
  enum Progress : uint8_t { kIdle, kDeferred, kStarted } progress = kIdle;
  uint64_t number = 0;  // of the collective in its group, or of the message on its link
};

struct RankState {
  const JobScript* script = nullptr;
  topology::Coordinates at;
  size_t next = 0;  // call
  bool blocked = false;
  std::vector<Ticket> tickets;
  bool ended() const { return next == script->calls.size(); }
};

class JobExecution {
 public:
  // deferring: the axes whose groups defer what may be deferred.
  JobExecution(const topology::Grid& grid, const std::vector<const JobScript*>& scripts,
               std::vector<Axis> deferring)
      : grid_(grid), deferring_(std::move(deferring)) {
    for (int32_t r = 0; r < grid.ranks(); ++r) {
      const JobScript* script = scripts[static_cast<size_t>(r)];
      ranks_.push_back({script, grid.at(r), 0, false,
                        std::vector<Ticket>(static_cast<size_t>(script->tickets))});
    }
  }

  // The fault, or "".
  std::string run() {
    connect();
    for (int32_t r = grid_.ranks(); fault_.empty() && r-- > 0;) ready_.push_back(r);
    while (!ready_.empty() && fault_.empty()) {
      const int32_t r = ready_.back();
      ready_.pop_back();
      while (fault_.empty() && !rank(r).ended() && step(r)) {
      }
    }
    if (fault_.empty()) fault_ = waiting();
    if (fault_.empty()) fault_ = unmatched();
    return fault_;
  }

 private:
  RankState& rank(int32_t r) { return ranks_[static_cast<size_t>(r)]; }

  std::string rank_text(int32_t r) const {
    const topology::Coordinates c = grid_.at(r);
    return strf("rank %d (pipeline %d, data %d, tensor %d)", r, c.pipeline, c.data, c.tensor);
  }

  std::string call_text(const Group& g, const Collective& c) const {
    std::string all = kind_name(c.kind);
    if (!all.empty())
      all += " of " + std::to_string(c.n) + " " + program::dtype_name(c.dtype) + " ";
    all += "'" + c.name + "'";
    const auto peer = [&] { return std::to_string(g.members.members.at(c.peer)); };
    if (c.kind == PLAIT_COMM_SEND) all += " to rank " + peer();
    if (c.kind == PLAIT_COMM_RECEIVE || c.kind == PLAIT_COMM_BROADCAST)
      all += " from rank " + peer();
    return all;
  }

  // Opens the groups, as sessions do: a rank opens those that its calls need.
  void connect() {
    for (int32_t r = 0; r < grid_.ranks() && fault_.empty(); ++r) {
      const JobScript& script = *rank(r).script;
      for (const Collective& c : script.collectives) {
        Group* g = group_of(r, c);
        const bool has_peer = is_message(c) || c.kind == PLAIT_COMM_BROADCAST;
        if (!has_peer || c.peer < static_cast<uint32_t>(g->members.size())) continue;
        fault_ = strf("%s has %s '%s' with member %u of group %s, which has %d members",
                      rank_text(r).c_str(), kind_name(c.kind), c.name.c_str(), c.peer,
                      g->name().c_str(), g->members.size());
      }
    }
    for (const auto& [key, g] : groups_)
      for (const int32_t r : g->members.members) check_member(*g, r);
  }

  void check_member(const Group& g, int32_t r) {
    const auto needs = [&](const Collective& c) {
      return c.axis == g.members.axis && c.channel == g.channel;
    };
    const auto& all = rank(r).script->collectives;
    if (!fault_.empty() || std::any_of(all.begin(), all.end(), needs)) return;
    for (const int32_t other : g.members.members)
      for (const Collective& c : rank(other).script->collectives)
        if (needs(c) && fault_.empty())
          fault_ = strf("%s opens group %s for %s, but %s has no call in this group",
                        rank_text(other).c_str(), g.name().c_str(), call_text(g, c).c_str(),
                        rank_text(r).c_str());
  }

  Group* group_of(int32_t r, const Collective& c) {
    const int32_t index = grid_.group_index(c.axis, rank(r).at);
    std::unique_ptr<Group>& g = groups_[{c.axis, index, c.channel}];
    if (!g) {
      g = std::make_unique<Group>();
      g->members = grid_.group(c.axis, index);
      g->channel = c.channel;
      g->started.assign(g->members.members.size(), 0);
    }
    return g.get();
  }

  // Makes the rank's next call; false if it must wait.
  bool step(int32_t r) {
    RankState& state = rank(r);
    const ScriptCall& call = state.script->calls[state.next];
    const Collective& c = state.script->collectives[static_cast<size_t>(call.collective)];
    Ticket& ticket = state.tickets[static_cast<size_t>(call.ticket)];
    if (call.starts) {
      if (defers(c))
        ticket.progress = Ticket::kDeferred;
      else
        start(r, c, call, ticket);
    } else if (ticket.progress != Ticket::kIdle) {
      if (ticket.progress == Ticket::kDeferred) start(r, c, call, ticket);
      if (!fault_.empty()) return false;
      if (!has_ended(r, c, ticket)) {
        state.blocked = true;
        return false;
      }
      ticket.progress = Ticket::kIdle;
    }
    ++state.next;
    return true;
  }

  bool defers(const Collective& c) const {
    return may_be_deferred(grid_, c) &&
           std::find(deferring_.begin(), deferring_.end(), c.axis) != deferring_.end();
  }

  void start(int32_t r, const Collective& c, const ScriptCall& call, Ticket& ticket) {
    Group& g = *group_of(r, c);
    const CallSite& site = rank(r).script->sites[call.site];
    ticket.progress = Ticket::kStarted;
    ticket.number = is_message(c) ? start_message(g, r, c, site) : start_collective(g, r, c, site);
  }

  uint64_t start_collective(Group& g, int32_t r, const Collective& c, const CallSite& site) {
    const auto member = static_cast<size_t>(g.members.position(r));
    const uint64_t number = g.started[member]++;
    const size_t index = number - g.ended;
    if (index == g.rounds.size()) {
      g.rounds.push_back({r, &c, &site, 1});
    } else {
      Half& first = g.rounds[index];
      compare(g, strf("call %llu", static_cast<unsigned long long>(number) + 1), first,
              {r, &c, &site}, *first.call == c);
      ++first.count;
    }
    // Members start in order, so the first one ends first.
    while (!g.rounds.empty() && g.rounds.front().count == g.members.size()) {
      g.rounds.pop_front();
      ++g.ended;
      for (const int32_t member_rank : g.members.members) wake(member_rank);
    }
    return number;
  }

  Link& link_of(Group& g, int32_t r, const Collective& c) {
    const int32_t own = g.members.position(r), other = static_cast<int32_t>(c.peer);
    return c.kind == PLAIT_COMM_SEND ? g.links[{own, other}] : g.links[{other, own}];
  }

  uint64_t start_message(Group& g, int32_t r, const Collective& c, const CallSite& site) {
    Link& link = link_of(g, r, c);
    uint64_t& mine = c.kind == PLAIT_COMM_SEND ? link.sent : link.received;
    const uint64_t theirs = c.kind == PLAIT_COMM_SEND ? link.received : link.sent;
    if (mine++ >= theirs) {
      link.unmatched.push_back({r, &c, &site});
      return mine - 1;
    }
    const Half& other = link.unmatched.front();
    compare(g, strf("message %llu", static_cast<unsigned long long>(mine)), other, {r, &c, &site},
            other.call->n == c.n && other.call->dtype == c.dtype && other.call->name == c.name);
    wake(other.rank);
    link.unmatched.pop_front();
    return mine - 1;
  }

  void compare(const Group& g, const std::string& which, const Half& a, const Half& b, bool same) {
    if (same || !fault_.empty()) return;
    const auto text_of = [&](const Half& h) {
      return call_text(g, *h.call) + " on " + rank_text(h.rank) + " in " + text(*h.site);
    };
    fault_ = which + " of group " + g.name() + " is " + text_of(a) + ", but " + text_of(b);
  }

  bool has_ended(int32_t r, const Collective& c, const Ticket& ticket) {
    Group& g = *group_of(r, c);
    return ticket.number < (is_message(c) ? link_of(g, r, c).ended() : g.ended);
  }

  void wake(int32_t r) {
    if (!rank(r).blocked) return;
    rank(r).blocked = false;
    ready_.push_back(r);
  }

  // A rank that is blocked: whom it waits for, and the text of that.
  std::pair<int32_t, std::string> wait_of(int32_t r) {
    const RankState& state = rank(r);
    const ScriptCall& call = state.script->calls[state.next];
    const Collective& c = state.script->collectives[static_cast<size_t>(call.collective)];
    const Ticket& ticket = state.tickets[static_cast<size_t>(call.ticket)];
    Group& g = *group_of(r, c);
    int32_t other = g.members.members.at(c.peer);
    if (!is_message(c)) {
      const auto behind = std::find_if(g.started.begin(), g.started.end(),
                                       [&](uint64_t n) { return n <= ticket.number; });
      other = g.members.members[static_cast<size_t>(behind - g.started.begin())];
    }
    return {other, rank_text(r) + " waits in " + text(state.script->sites[call.site]) +
                       " for the end of " + call_text(g, c)};
  }

  // The ranks that wait for each other, or for one that makes no further call.
  std::string waiting() {
    int32_t r = 0;
    while (r < grid_.ranks() && rank(r).ended()) ++r;
    if (r == grid_.ranks()) return "";
    std::vector<int32_t> chain;
    while (!rank(r).ended() && std::find(chain.begin(), chain.end(), r) == chain.end()) {
      chain.push_back(r);
      r = wait_of(r).first;
    }
    if (rank(r).ended())
      return wait_of(chain.back()).second + ", which " + rank_text(r) + " never starts";
    chain.erase(chain.begin(), std::find(chain.begin(), chain.end(), r));
    std::vector<std::string> texts;
    for (const int32_t waits : chain) {
      const auto [other, what] = wait_of(waits);
      texts.push_back(what + ", which rank " + std::to_string(other) + " has not started");
    }
    return "these ranks wait for each other: " + join(texts, "; ");
  }

  // All ranks are through: what was started and is not waited for has ended, too.
  std::string unmatched() {
    for (const auto& [key, g] : groups_) {
      const Half* half = g->rounds.empty() ? nullptr : &g->rounds.front();
      for (const auto& [ends, link] : g->links)
        if (!half && !link.unmatched.empty()) half = &link.unmatched.front();
      if (!half) continue;
      int32_t other = g->members.members.at(half->call->peer);
      for (size_t m = 0; !is_message(*half->call) && m < g->started.size(); ++m)
        if (g->started[m] <= g->ended) other = g->members.members[m];
      return rank_text(half->rank) + " starts " + call_text(*g, *half->call) + " in " +
             text(*half->site) + ", which " + rank_text(other) + " never starts";
    }
    return "";
  }

  const topology::Grid& grid_;
  const std::vector<Axis> deferring_;
  std::vector<RankState> ranks_;
  std::map<std::tuple<Axis, int32_t, uint32_t>, std::unique_ptr<Group>> groups_;
  std::vector<int32_t> ready_;
  std::string fault_;
};

// Every choice of the axes on which a call may be deferred.
std::vector<std::vector<Axis>> deferrals(const topology::Grid& grid,
                                         const std::map<const RankCalls*, JobScript>& scripts) {
  std::vector<std::vector<Axis>> all{{}};
  for (const Axis axis : topology::kAxes) {
    const auto any = [&](const auto& script) {
      return std::any_of(
          script.second.collectives.begin(), script.second.collectives.end(),
          [&](const Collective& c) { return c.axis == axis && may_be_deferred(grid, c); });
    };
    if (std::none_of(scripts.begin(), scripts.end(), any)) continue;
    for (size_t i = all.size(); i-- > 0;) {
      all.push_back(all[i]);
      all.back().push_back(axis);
    }
  }
  return all;
}

// The calls of the first step, each counted once.
void count(const topology::Grid& grid, const std::vector<const JobScript*>& scripts,
           JobVerdict& verdict) {
  std::map<Axis, uint64_t> starts;  // of collectives, by all members
  for (const JobScript* script : scripts)
    for (size_t i = script->first_step; i < script->after_first_step; ++i) {
      const ScriptCall& call = script->calls[i];
      const Collective& c = script->collectives[static_cast<size_t>(call.collective)];
      if (!call.starts) continue;
      if (c.kind == PLAIT_COMM_SEND) ++verdict.messages;
      if (!is_message(c)) ++starts[c.axis];
    }
  for (const auto& [axis, n] : starts)
    verdict.collectives += n / static_cast<uint64_t>(grid.group_size(axis));
}

}  // namespace

JobVerdict verify_job(const topology::Grid& grid, const std::vector<const RankCalls*>& calls) {
  if (calls.size() != static_cast<size_t>(grid.ranks()))
    fail_internal(strf("[plan] calls of %zu ranks for a grid of %d", calls.size(), grid.ranks()));
  JobVerdict verdict;
  std::map<const RankCalls*, JobScript> scripts;
  std::vector<const JobScript*> of_rank;
  for (size_t r = 0; r < calls.size(); ++r) {
    const auto [at, fresh] = scripts.try_emplace(calls[r]);
    if (fresh) at->second = script_of(*calls[r]);
    if (verdict.fault.empty() && !at->second.fault.empty())
      verdict.fault = "rank " + std::to_string(r) + " " + at->second.fault;
    of_rank.push_back(&at->second);
  }
  for (const std::vector<Axis>& deferring : deferrals(grid, scripts))
    if (verdict.fault.empty()) verdict.fault = JobExecution(grid, of_rank, deferring).run();
  if (verdict.fault.empty()) count(grid, of_rank, verdict);
  return verdict;
}

}  // namespace plait::plan

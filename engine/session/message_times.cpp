#include "engine/session/message_times.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"

namespace plait::session {
namespace {

using Link = std::tuple<int32_t, int32_t, uint32_t>;  // from, to, channel
Link link_of(const MessageEnd& end) { return {end.from, end.to, end.channel}; }

}  // namespace

std::vector<MessageEnd> message_ends(const plan::Plan& plan,
                                     const std::vector<runtime::Executor::TimedCall>& calls,
                                     int64_t offset_ns) {
  std::vector<MessageEnd> ends;
  std::map<int32_t, size_t> waited;  // receives that have started, by collective
  for (const runtime::Executor::TimedCall& timed : calls) {
    const plan::KernelCall& call = timed.program->calls[timed.call];
    if (call.collective < 0) continue;
    const plan::Collective& c = plan.collectives[static_cast<size_t>(call.collective)];
    if (!plan::is_message(c)) continue;
    const program::Op& op = timed.program->graph->ops()[static_cast<size_t>(call.op)];
    const bool sends = c.kind == PLAIT_COMM_SEND;
    if (op.def->collective == program::CollectiveOp::kStart) {
      const int32_t peer =
          plan.grid.rank({static_cast<int32_t>(c.peer), plan.at.data, plan.at.tensor});
      if (!sends) waited[call.collective] = ends.size();
      ends.push_back({sends ? plan.rank : peer, sends ? peer : plan.rank, c.channel, sends,
                      static_cast<int64_t>(timed.begin_ns) + offset_ns, 0});
    } else if (const auto at = waited.find(call.collective); at != waited.end()) {
      ends[at->second].arrived_ns = static_cast<int64_t>(timed.end_ns) + offset_ns;
      waited.erase(at);
    }
  }
  return ends;
}

std::string text_of(const std::vector<MessageEnd>& ends) {
  std::ostringstream text;
  for (const MessageEnd& e : ends)
    text << e.from << ' ' << e.to << ' ' << e.channel << ' ' << e.sends << ' ' << e.ready_ns << ' '
         << e.arrived_ns << '\n';
  return text.str();
}

std::vector<MessageEnd> message_ends(const std::string& text) {
  std::vector<MessageEnd> ends;
  std::istringstream in(text);
  MessageEnd e;
  while (in >> e.from >> e.to >> e.channel >> e.sends >> e.ready_ns >> e.arrived_ns)
    ends.push_back(e);
  if (!in.eof()) fail_internal("[session] times of messages that another rank wrote are no text");
  return ends;
}

std::vector<double> message_seconds(const std::vector<std::vector<MessageEnd>>& of_ranks) {
  std::map<Link, std::vector<int64_t>> sent;
  for (const auto& ends : of_ranks)
    for (const MessageEnd& e : ends)
      if (e.sends) sent[link_of(e)].push_back(e.ready_ns);
  std::map<Link, size_t> next;
  std::vector<double> seconds;
  for (const auto& ends : of_ranks)
    for (const MessageEnd& e : ends) {
      if (e.sends) continue;
      const std::vector<int64_t>& senders = sent[link_of(e)];
      const size_t i = next[link_of(e)]++;
      if (i >= senders.size() || e.arrived_ns == 0) continue;
      const int64_t both = std::max(senders[i], e.ready_ns);
      seconds.push_back(static_cast<double>(std::max<int64_t>(0, e.arrived_ns - both)) * 1e-9);
    }
  return seconds;
}

}  // namespace plait::session

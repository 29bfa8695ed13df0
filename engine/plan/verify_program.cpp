#include "engine/plan/verify_program.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/arena_offsets.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/text/print.hpp"
#include "engine/program/verify.hpp"

namespace plait::plan {
namespace {

using program::CollectiveOp;
using program::Fault;
using program::Graph;
using program::Op;
using program::ValueId;
using Found = std::optional<Fault>;

bool needs_call(const Graph& g, const Op& op) {
  return !op.def->is_view && std::any_of(op.out.begin(), op.out.end(), [&](ValueId v) {
    return program::elements(g.shape(v)) > 0;
  });
}

Found check_calls(const Program& p) {
  const Graph& g = *p.graph;
  size_t next = 0;
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const auto at = static_cast<int32_t>(i);
    const Op& op = g.ops()[i];
    if (!needs_call(g, op)) continue;
    if (next == p.calls.size() || p.calls[next].op != at) return Fault{at, "has no call"};
    const KernelCall& c = p.calls[next++];
    const bool collective = op.def->collective != CollectiveOp::kNone;
    if (collective != (c.collective >= 0) || collective == (c.kernel != nullptr))
      return Fault{at, collective ? "is a collective, but its call is none"
                                  : "has neither a kernel nor a collective of its own"};
    if (c.operands.size() != op.in.size() + op.out.size())
      return Fault{at, strf("has %zu operands, its call has %zu", op.in.size() + op.out.size(),
                            c.operands.size())};
  }
  if (next != p.calls.size())
    return Fault{-1, strf("has %zu calls more than ops", p.calls.size() - next)};
  return {};
}

// A block of the arena: of the value that owns it, or a call's workspace.
struct Block {
  std::string name;
  uint64_t begin = 0, end = 0;
  int32_t first = 0, last = 0;  // calls' ops, both inclusive
};

class Arena {
 public:
  explicit Arena(const Program& p) : p_(p), g_(*p.graph), block_of_(g_.n_values(), SIZE_MAX) {}
  Found run() {
    for (const KernelCall& c : p_.calls) {
      if (Found f = add_operands(c)) return f;
      if (c.workspace_bytes > 0)
        if (Found f =
                add({"its workspace", c.workspace, c.workspace + c.workspace_bytes, c.op, c.op}))
          return f;
    }
    return check_overlap();
  }

 private:
  Found add(Block b) {
    if (b.end > p_.transient_bytes || b.end < b.begin)
      return Fault{b.first, strf("%s takes bytes %llu to %llu of an arena of %llu", b.name.c_str(),
                                 static_cast<unsigned long long>(b.begin),
                                 static_cast<unsigned long long>(b.end),
                                 static_cast<unsigned long long>(p_.transient_bytes))};
    if (b.begin % program::kAlignment != 0)
      return Fault{b.first,
                   b.name + strf(" lies at byte %llu of the arena, which is no multiple of %llu",
                                 static_cast<unsigned long long>(b.begin),
                                 static_cast<unsigned long long>(program::kAlignment))};
    blocks_.push_back(std::move(b));
    return {};
  }
  Found add_operands(const KernelCall& c) {
    const Op& op = g_.ops()[static_cast<size_t>(c.op)];
    for (size_t k = 0; k < c.operands.size(); ++k) {
      const ValueId v = k < op.in.size() ? op.in[k] : op.out[k - op.in.size()];
      const ValueId storage = g_.storage_of(v);
      const auto& owner = g_.value(storage);
      const std::string name = strf("%%%u", v);
      const BufferRef at = c.operands[k];
      if (owner.role == program::Role::kPersistent) {
        if (at.segment != owner.buffer.segment ||
            at.offset != owner.buffer.offset + g_.storage_offset(v) || at.segment < 0)
          return Fault{c.op, name + " is not at the place that it has in the graph"};
        continue;
      }
      if (at.segment != kTransient || at.offset < g_.storage_offset(v))
        return Fault{c.op, name + " is transient, but does not lie in the arena"};
      const uint64_t begin = at.offset - g_.storage_offset(v);
      size_t& block = block_of_[storage];
      if (block == SIZE_MAX) {
        block = blocks_.size();
        if (Found f = add(
                {strf("%%%u", storage), begin, begin + program::bytes(owner.shape), c.op, c.op}))
          return f;
      }
      if (blocks_[block].begin != begin)
        return Fault{c.op, name + " is at two places of the arena"};
      blocks_[block].last = c.op;
    }
    return {};
  }
  // What lives at once, by its first byte.
  Found check_overlap() const {
    std::vector<size_t> starts(blocks_.size()), ends;
    for (size_t i = 0; i < starts.size(); ++i) starts[i] = i;
    ends = starts;
    std::sort(starts.begin(), starts.end(),
              [&](size_t a, size_t b) { return blocks_[a].first < blocks_[b].first; });
    std::sort(ends.begin(), ends.end(),
              [&](size_t a, size_t b) { return blocks_[a].last < blocks_[b].last; });
    std::map<uint64_t, size_t> live;
    size_t ended = 0;
    for (const size_t i : starts) {
      const Block& b = blocks_[i];
      if (b.begin == b.end) continue;
      for (; ended < ends.size() && blocks_[ends[ended]].last < b.first; ++ended)
        if (const auto at = live.find(blocks_[ends[ended]].begin);
            at != live.end() && at->second == ends[ended])
          live.erase(at);
      const auto next = live.lower_bound(b.begin);
      if (next != live.end() && blocks_[next->second].begin < b.end)
        return overlap(b, blocks_[next->second]);
      if (next != live.begin() && blocks_[std::prev(next)->second].end > b.begin)
        return overlap(b, blocks_[std::prev(next)->second]);
      live[b.begin] = i;
    }
    return {};
  }
  static Fault overlap(const Block& a, const Block& b) {
    return {a.first, strf("%s takes bytes %llu to %llu of the arena, where %s lies until op %d",
                          a.name.c_str(), static_cast<unsigned long long>(a.begin),
                          static_cast<unsigned long long>(a.end), b.name.c_str(), b.last)};
  }

  const Program& p_;
  const Graph& g_;
  std::vector<size_t> block_of_;  // by storage
  std::vector<Block> blocks_;
};

Found check_collectives(const Plan& plan, const Program& p) {
  std::map<std::tuple<topology::Axis, uint32_t, uint32_t>, int32_t> last;
  for (const KernelCall& c : p.calls) {
    if (c.collective < 0 && c.kernel) continue;
    const Op& op = p.graph->ops()[static_cast<size_t>(c.op)];
    if (c.collective < 0 || static_cast<size_t>(c.collective) >= plan.collectives.size() ||
        c.collective != op.attrs.integer("id", -1))
      return Fault{c.op, strf("is collective %d, which the plan does not list", c.collective)};
    if (op.def->collective != CollectiveOp::kStart) continue;
    const Collective& e = plan.collectives[static_cast<size_t>(c.collective)];
    const plait_shape &out = p.graph->shape(op.out[0]),
                      &in = op.in.empty() ? out : p.graph->shape(op.in[0]);
    const auto n = static_cast<uint64_t>(std::min(program::elements(in), program::elements(out)));
    if (e.kind != op.attrs.integer("kind", 0) || e.dtype != in.dtype)
      return Fault{c.op,
                   strf("is listed as %s of %s", kind_name(e.kind), program::dtype_name(e.dtype))};
    if (e.n != n)
      return Fault{c.op,
                   strf("is listed with %llu elements", static_cast<unsigned long long>(e.n))};
    if (op.attrs.integer("ordered", 0) == 0) continue;
    const auto [before, first] = last.try_emplace({e.axis, e.kind, e.peer}, c.collective);
    if (c.collective < before->second)
      return Fault{c.op,
                   strf("starts behind collective %d, which the plan lists later", before->second)};
    before->second = c.collective;
  }
  return {};
}

// Which collectives are under way, launch by launch.
class Launches {
 public:
  explicit Launches(const Plan& plan) : plan_(plan) {}
  void run(const EntryPoint& entry, const char* times) {
    what_ = entry.call + times;
    for (const Launch& l : entry.launches) {
      if (l.program < 0) continue;
      const Program& p = plan_.programs.at(static_cast<size_t>(l.program));
      if (l.slot < p.first_slot || l.slot >= p.first_slot + p.slots)
        fail(p, {-1, strf("is launched on slot %d, but has slots %d to %d", l.slot, p.first_slot,
                          p.first_slot + p.slots - 1)});
      if (l.feed >= static_cast<int32_t>(entry.stage_feeds.size()))
        fail(p, {-1, strf("is launched with feed %d of %zu", l.feed, entry.stage_feeds.size())});
      run(p, l.slot);
    }
    check_end();
  }

 private:
  void check_end() const {
    for (const auto& [key, at] : under_way_)
      if (plan_.collectives[static_cast<size_t>(key.first)].kind != PLAIT_COMM_SEND)
        fail(*at.first, {at.second, "starts a collective whose end nobody waits for"});
  }
  [[noreturn]] void fail(const Program& p, const Fault& fault) const {
    program::fail_verify(*p.graph, fault, "launching " + what_, p.name);
  }
  void run(const Program& p, int32_t launch_slot) {
    for (const KernelCall& c : p.calls) {
      if (c.collective < 0) continue;
      const Op& op = p.graph->ops()[static_cast<size_t>(c.op)];
      const Collective& e = plan_.collectives[static_cast<size_t>(c.collective)];
      const auto slot = static_cast<int32_t>(op.attrs.integer("slot", launch_slot));
      const std::pair<int32_t, int32_t> key{c.collective, e.slotted ? slot : 0};
      if (op.def->collective == CollectiveOp::kStart) {
        if (!under_way_.emplace(key, std::pair{&p, c.op}).second)
          fail(p, {c.op, "starts while it is still under way"});
      } else if (under_way_.erase(key) == 0 && e.kind != PLAIT_COMM_SEND) {
        fail(p, {c.op, "waits for a collective that was not started before"});
      }
    }
  }

  const Plan& plan_;
  std::string what_;
  std::map<std::pair<int32_t, int32_t>, std::pair<const Program*, int32_t>> under_way_;
};

}  // namespace

void verify_program(const Plan& plan, const Program& p) {
  Found fault = check_calls(p);
  if (!fault) fault = Arena(p).run();
  if (!fault) fault = check_collectives(plan, p);
  if (fault) program::fail_verify(*p.graph, *fault, "assign_offsets", p.name);
}

void verify_launches(const Plan& plan) {
  Launches launches(plan);
  for (const EntryPoint& entry : plan.entry_points)
    for (const char* times : {"", " again"}) launches.run(entry, times);
}

}  // namespace plait::plan

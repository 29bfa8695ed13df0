#include "engine/program/verify_memory.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/program/op_def.hpp"
#include "engine/program/text/print.hpp"

namespace plait::program {
namespace {

using Found = std::optional<Fault>;

std::string id(ValueId v) { return "%" + std::to_string(v); }

bool is_start(const Op& op) { return op.def->collective == CollectiveOp::kStart; }
bool is_done(const Op& op) { return op.def->collective == CollectiveOp::kDone; }
bool sends(const Op& op) { return is_start(op) && op.attrs.integer("kind", 0) == PLAIT_COMM_SEND; }
int64_t id_of(const Op& op) { return op.attrs.integer("id", -1); }

// Adds to its last operand, whose memory its result takes: see kFoldAccumulate.
bool accumulates(const Op& op) {
  return (op.def->folds & kFoldAccumulate) != 0 && op.attrs.integer("accumulate", 0) != 0;
}

// The op that made what lies there, through views; -1: it was there before the program.
int32_t maker_of(const Graph& g, ValueId v) {
  for (; v; v = g.value(v).alias_of)
    if (const int32_t p = g.value(v).producer;
        p >= 0 && !g.ops()[static_cast<size_t>(p)].def->is_view)
      return p;
  return -1;
}

// Transient memory that nobody makes as a whole.
bool is_buffer(const Graph& g, ValueId storage) {
  const Value& value = g.value(storage);
  return value.role == Role::kTransient && value.producer < 0;
}

struct Write {
  int32_t op = 0;
  ValueId value = 0;
  Extent extent;
};

// Follows the ops in their order.
class Memory {
 public:
  explicit Memory(const Graph& g) : g_(g) {}
  Found run() {
    for (size_t i = 0; i < g_.ops().size(); ++i) {
      for (ValueId v : g_.ops()[i].in)
        if (Found f = check_read(i, v)) return f;
      if (!writes(g_, i)) continue;
      if (Found f = check_write(i)) return f;
      for (ValueId v : g_.ops()[i].out) {
        const Extent e = extent_of(g_, v);
        writes_[e.space].push_back({static_cast<int32_t>(i), v, e});
      }
    }
    return {};
  }

 private:
  Found check_read(size_t i, ValueId v) const {
    const Extent e = extent_of(g_, v);
    if (e.begin == e.end) return {};
    const auto at = writes_.find(e.space);
    const std::vector<Write> none;
    const std::vector<Write>& before = at == writes_.end() ? none : at->second;
    const ValueId storage = g_.storage_of(v);
    const int32_t maker = maker_of(g_, v);
    if (maker < 0 && is_buffer(g_, storage)) return check_written(i, v, e, before);
    for (size_t k = before.size(); k-- > 0 && before[k].op > maker;) {
      const Write& w = before[k];
      if (!w.extent.overlaps(e) || is_part_of(g_.ops()[i], w.value)) continue;
      // Another name of memory outside the program means what lies there when it is read.
      if (maker < 0 && g_.storage_of(w.value) != storage) continue;
      return Fault{static_cast<int32_t>(i), "reads " + id(v) + ", which is overwritten by op " +
                                                std::to_string(w.op) + ": " +
                                                op_line(g_, static_cast<size_t>(w.op))};
    }
    return {};
  }
  // A collective names what lies in the memory that it takes as a whole.
  static bool is_part_of(const Op& op, ValueId written) {
    return op.def->collective != CollectiveOp::kNone &&
           std::find(op.in.begin(), op.in.end(), written) != op.in.end();
  }
  Found check_written(size_t i, ValueId v, const Extent& e,
                      const std::vector<Write>& before) const {
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    for (const Write& w : before)
      if (w.extent.overlaps(e)) parts.emplace_back(w.extent.begin, w.extent.end);
    std::sort(parts.begin(), parts.end());
    uint64_t until = e.begin;
    for (const auto& [begin, end] : parts)
      if (begin <= until) until = std::max(until, end);
    if (until >= e.end) return {};
    return Fault{static_cast<int32_t>(i), "reads " + id(v) + ", of whose memory byte " +
                                              std::to_string(until - e.begin) +
                                              " was not written before"};
  }
  // Operands in the memory of a result, and results in one memory.
  Found check_write(size_t i) const {
    const Op& op = g_.ops()[i];
    if (op.def->collective != CollectiveOp::kNone) return {};
    for (size_t k = 0; k < op.out.size(); ++k) {
      const Extent out = extent_of(g_, op.out[k]);
      for (ValueId v : op.in) {
        const Extent in = extent_of(g_, v);
        const bool in_place =
            in == out &&
            (op.def->is_map || (accumulates(op) && v == op.in.back()) ||
             (op.def->updates_input && v == op.in.front()) ||
             (k < op.alias.size() && op.alias[k] >= 0 &&
              v == op.in[static_cast<size_t>(op.alias[k])] && op.alias[k] == op.def->overwrites));
        if (in.overlaps(out) && !in_place)
          return Fault{static_cast<int32_t>(i),
                       "reads " + id(v) + " while it writes " + id(op.out[k]) + " over it"};
      }
      for (size_t m = 0; m < k; ++m)
        if (extent_of(g_, op.out[m]).overlaps(out))
          return Fault{static_cast<int32_t>(i),
                       "writes " + id(op.out[m]) + " and " + id(op.out[k]) + " to the same memory"};
    }
    return {};
  }

  const Graph& g_;
  std::map<int64_t, std::vector<Write>> writes_;  // by space, in their order
};

// A collective under way: ops in between stay away from its memory.
class InFlight {
 public:
  explicit InFlight(const Graph& g) : g_(g), extents_(g.n_values()), writes_(g.ops().size()) {
    for (size_t i = 0; i < g.ops().size(); ++i) {
      writes_[i] = writes(g, i);
      for (const auto* list : {&g.ops()[i].in, &g.ops()[i].out})
        for (ValueId v : *list) extents_[v] = extent_of(g, v);
    }
  }
  Found run() {
    for (size_t i = 0; i < g_.ops().size(); ++i) {
      const Op& op = g_.ops()[i];
      if (is_start(op)) {
        if (!started_.emplace(id_of(op), i).second)
          return Fault{static_cast<int32_t>(i), "starts collective " + std::to_string(id_of(op)) +
                                                    " for the second time in one program"};
      } else if (is_done(op)) {
        if (Found f = check_done(i)) return f;
      }
    }
    for (const auto& [collective, start] : started_)
      if (Found f = check_between(start)) return f;
    return {};
  }

 private:
  // The start whose result an op waits for; -1: it is in another program, or another launch.
  int32_t start_of(const Op& done) const {
    const int32_t maker = done.in.empty() ? -1 : maker_of(g_, done.in[0]);
    return maker >= 0 && is_start(g_.ops()[static_cast<size_t>(maker)]) ? maker : -1;
  }
  Found check_done(size_t i) {
    const Op& op = g_.ops()[i];
    const auto at = static_cast<int32_t>(i);
    if (!done_.emplace(id_of(op), op.attrs.integer("slot", -1)).second)
      return Fault{at, "waits for collective " + std::to_string(id_of(op)) +
                           " for the second time in one program"};
    const int32_t start = start_of(op);
    if (start < 0) {  // it may name the memory otherwise; or the start is not here
      if (const auto known = started_.find(id_of(op)); known != started_.end())
        end_[known->second] = i;
      return {};
    }
    const int64_t expected = id_of(g_.ops()[static_cast<size_t>(start)]);
    if (expected != id_of(op))
      return Fault{at, "waits for collective " + std::to_string(id_of(op)) +
                           ", but what it reads is started as " + std::to_string(expected)};
    end_[static_cast<size_t>(start)] = i;
    return {};
  }
  Found check_between(size_t start) const {
    const Op& op = g_.ops()[start];
    const auto at = end_.find(start);
    const size_t end = at == end_.end() ? g_.ops().size() : at->second;
    for (const auto* list : {&op.in, &op.out})
      for (ValueId v : *list)
        if (Found f = check_alive(start, end, v)) return f;
    for (size_t i = start + 1; i < end; ++i) {
      const Op& other = g_.ops()[i];
      if (writes_[i])
        for (const auto* list : {&op.in, &op.out})
          for (ValueId v : *list)
            for (ValueId w : other.out)
              if (extents_[w].overlaps(extents_[v]))
                return fault(i, start, "writes " + id(w) + ", the memory of " + id(v));
      if (sends(op) || other.def->is_view) continue;
      for (ValueId v : op.out)
        for (ValueId r : other.in)
          if (extents_[r].overlaps(extents_[v]))
            return fault(i, start, "reads " + id(r) + ", the memory of " + id(v));
    }
    return {};
  }
  // Transient memory of a collective is held by what waits for its end.
  Found check_alive(size_t start, size_t end, ValueId v) const {
    const ValueId storage = g_.storage_of(v);
    if (g_.value(storage).role == Role::kPersistent || bytes(g_.shape(v)) == 0) return {};
    if (end < g_.ops().size())
      for (ValueId held : g_.ops()[end].in)
        if (g_.storage_of(held) == storage) return {};
    return Fault{static_cast<int32_t>(start),
                 id(v) + " is transient memory of the collective, but " +
                     (end < g_.ops().size() ? "the op that waits for its end does not name it"
                                            : "nothing in the program waits for its end")};
  }
  Fault fault(size_t i, size_t start, const std::string& what) const {
    return {static_cast<int32_t>(i),
            what + ", while a collective works on it: " + op_line(g_, start)};
  }

  const Graph& g_;
  std::vector<Extent> extents_;                 // by value, of those that ops name
  std::vector<char> writes_;                    // by op
  std::map<int64_t, size_t> started_;           // by id: op
  std::set<std::pair<int64_t, int64_t>> done_;  // id and slot
  std::map<size_t, size_t> end_;                // by start: the op that waits for it
};

}  // namespace

Extent extent_of(const Graph& g, ValueId v) {
  const ValueId storage = g.storage_of(v);
  const Value& value = g.value(storage);
  const bool placed = value.role == Role::kPersistent && value.buffer.segment >= 0;
  const uint64_t begin = (placed ? value.buffer.offset : 0) + g.storage_offset(v);
  return {placed ? -1 - static_cast<int64_t>(value.buffer.segment) : static_cast<int64_t>(storage),
          begin, begin + bytes(g.shape(v))};
}

// Waiting for a message that was sent changes nothing, either.
bool writes(const Graph& g, size_t i) {
  const Op& op = g.ops()[i];
  if (op.def->is_view || sends(op)) return false;
  if (!is_done(op) || op.in.empty()) return true;
  const int32_t maker = maker_of(g, op.in[0]);
  return maker < 0 || !sends(g.ops()[static_cast<size_t>(maker)]);
}

std::optional<Fault> find_memory_fault(const Graph& g) { return Memory(g).run(); }
std::optional<Fault> find_collective_fault(const Graph& g) { return InFlight(g).run(); }

}  // namespace plait::program

#include "engine/program/hoist.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "engine/program/op_def.hpp"
#include "engine/program/passes.hpp"

namespace plait::program {
namespace {

int64_t id_of(const Op& op) { return op.attrs.integer("id", -1); }

bool starts(const Op& op) { return op.def->collective == CollectiveOp::kStart; }

// Ordered collectives: ranks with different programs start them in the same order, by which
// messages are matched.
bool is_ordered(const Op& op) { return starts(op) && op.attrs.integer("ordered", 0) != 0; }

// The ops of a program as a linked list, in which an op is moved in constant time, with labels that
// tell which of two ops comes first.
class Sequence {
 public:
  explicit Sequence(const Graph& g) : label_(g.ops().size()) {
    for (size_t i = 0; i < label_.size(); ++i) at_.push_back(list_.insert(list_.end(), i));
    number();
  }
  bool before(size_t a, size_t b) const { return label_[a] < label_[b]; }
  bool is_first(size_t op) const { return list_.front() == op; }
  // Moves an op to right behind another one.
  void move_behind(size_t op, size_t other) {
    list_.splice(std::next(at_[other]), list_, at_[op]);
    const auto next = std::next(at_[op]);
    const uint64_t low = label_[other], high = next == list_.end() ? low + 2 * kGap : label_[*next];
    label_[op] = low + (high - low) / 2;
    if (label_[op] == low) number();
  }
  std::vector<size_t> order() const { return {list_.begin(), list_.end()}; }

 private:
  static constexpr uint64_t kGap = uint64_t{1} << 32;
  void number() {
    uint64_t label = 0;
    for (const size_t op : list_) label_[op] = label += kGap;
  }

  std::list<size_t> list_;
  std::vector<std::list<size_t>::iterator> at_;  // by op
  std::vector<uint64_t> label_;                  // by op, rising along the list
};

// A collective starts behind the last op that computes its operand; an ordered one also behind the
// ordered one before it. Those of one op keep their order: a rank that does not compute the operand
// has no op to move them behind.
void hoist_starts(const Graph& g, Sequence& sequence) {
  constexpr size_t kNone = SIZE_MAX;
  size_t last_ordered = kNone;
  std::vector<size_t> last_behind(g.ops().size(), kNone);  // by op: the last start that moved there
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    if (!starts(op)) continue;
    size_t behind = is_ordered(op) ? last_ordered : kNone;
    for (const ValueId v : op.in) {
      if (g.value(v).producer < 0) continue;
      const auto maker = static_cast<size_t>(g.value(v).producer);
      if (behind == kNone || sequence.before(behind, maker)) behind = maker;
    }
    // An operand that this program does not compute was written outside: the start stays here.
    if (behind != kNone) {
      const size_t last = std::exchange(last_behind[behind], i);
      sequence.move_behind(i, last == kNone ? behind : last);
    }
    if (is_ordered(op)) last_ordered = i;
  }
}

// Moves the wait for a send behind the start of the next collective: at most two are in flight, and
// the buffer of the first can be reused.
void hoist_waits(const Graph& g, Sequence& sequence) {
  const std::vector<size_t> order = sequence.order();
  std::vector<size_t> started;             // ops, in their order
  std::map<int64_t, size_t> last_started;  // by id: index into `started`
  for (const size_t i : order) {
    const Op& op = g.ops()[i];
    if (starts(op)) {
      last_started[id_of(op)] = started.size();
      started.push_back(i);
    }
    if (op.def->collective != CollectiveOp::kDone || op.in.size() < 2) continue;
    const auto own = last_started.find(id_of(op));
    // A collective that another program started precedes all ops of this one.
    size_t next = own != last_started.end() ? own->second + 1 : 0;
    if (own == last_started.end() && !started.empty() && sequence.is_first(started[0])) next = 1;
    if (next < started.size()) sequence.move_behind(i, started[next]);
  }
}

}  // namespace

void hoist_collectives(Graph& g) {
  Sequence sequence(g);
  hoist_starts(g, sequence);
  hoist_waits(g, sequence);
  g.reorder(sequence.order());
  eliminate_dead_ops(g);
}

}  // namespace plait::program

#include "engine/program/arena_offsets.hpp"

#include <algorithm>
#include <numeric>

#include "engine/base/checked.hpp"

namespace plait::program {
namespace {

// A set of bytes: ranges [begin, end), ascending, that neither overlap nor touch. Blocks are
// packed, so there are few of them.
class ByteSet {
 public:
  struct Range {
    uint64_t begin = 0, end = 0;
  };
  void add(Range r) {
    const auto first =
        std::lower_bound(ranges_.begin(), ranges_.end(), r.begin,
                         [](const Range& a, uint64_t begin) { return a.end < begin; });
    auto last = first;
    for (; last != ranges_.end() && last->begin <= r.end; ++last) {
      r.begin = std::min(r.begin, last->begin);
      r.end = std::max(r.end, last->end);
    }
    if (first == last) {
      ranges_.insert(first, r);
      return;
    }
    *first = r;
    ranges_.erase(first + 1, last);
  }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// The bytes in use at each op: a segment tree over the ops of a program.
class Occupancy {
 public:
  explicit Occupancy(int32_t n_ops) {
    while (span_ < n_ops) span_ *= 2;
    nodes_.resize(2 * static_cast<size_t>(span_));
  }
  void add(const ArenaBlock& block) {
    add(1, 0, span_ - 1, block, {block.offset, block.offset + block.bytes});
  }
  // The lowest offset at which `block` overlaps no block that is live at the same time.
  uint64_t lowest(const ArenaBlock& block) {
    found_.clear();
    collect(1, 0, span_ - 1, block);
    std::sort(found_.begin(), found_.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    uint64_t at = 0;
    for (const ByteSet::Range& r : found_) {
      if (at + block.bytes <= r.begin) break;  // the gap before it is wide enough
      at = std::max(at, r.end);
    }
    return at;
  }

 private:
  struct Node {
    ByteSet whole;  // of blocks that are live during all of the node's ops
    ByteSet any;    // of blocks that are live during any of them
  };
  void add(size_t node, int32_t low, int32_t high, const ArenaBlock& block, ByteSet::Range range) {
    if (block.last < low || high < block.first) return;
    nodes_[node].any.add(range);
    if (block.first <= low && high <= block.last) return nodes_[node].whole.add(range);
    const int32_t middle = low + (high - low) / 2;
    add(2 * node, low, middle, block, range);
    add(2 * node + 1, middle + 1, high, block, range);
  }
  void collect(size_t node, int32_t low, int32_t high, const ArenaBlock& block) {
    if (block.last < low || high < block.first || nodes_[node].any.ranges().empty()) return;
    const bool inside = block.first <= low && high <= block.last;
    const auto& ranges = (inside ? nodes_[node].any : nodes_[node].whole).ranges();
    found_.insert(found_.end(), ranges.begin(), ranges.end());
    if (inside) return;
    const int32_t middle = low + (high - low) / 2;
    collect(2 * node, low, middle, block);
    collect(2 * node + 1, middle + 1, high, block);
  }

  int32_t span_ = 1;         // ops, a power of two
  std::vector<Node> nodes_;  // the root is nodes_[1], the children of k are 2k and 2k + 1
  std::vector<ByteSet::Range> found_;
};

}  // namespace

uint64_t assign_offsets(std::vector<ArenaBlock>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Largest first; ties by time, so that the plan is the same on every machine.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (blocks[a].bytes != blocks[b].bytes) return blocks[a].bytes > blocks[b].bytes;
    return blocks[a].first != blocks[b].first ? blocks[a].first < blocks[b].first : a < b;
  });
  int32_t n_ops = 0;
  for (const ArenaBlock& b : blocks) n_ops = std::max(n_ops, b.last + 1);
  Occupancy occupancy(n_ops);
  uint64_t peak = 0;
  for (size_t i : order) {
    ArenaBlock& block = blocks[i];
    block.bytes = checked_round_up(block.bytes, kAlignment, "[program] bytes of a value");
    block.offset = 0;
    if (block.bytes == 0) continue;
    block.offset = occupancy.lowest(block);
    peak = std::max(
        peak, checked_add<uint64_t>(block.offset, block.bytes, "[program] bytes of the arena"));
    occupancy.add(block);
  }
  return peak;
}

}  // namespace plait::program

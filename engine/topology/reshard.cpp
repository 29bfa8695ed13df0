#include "engine/topology/reshard.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::topology {

namespace {

std::string text(const std::vector<int64_t>& numbers) {
  std::vector<std::string> words;
  for (const int64_t n : numbers) words.push_back(std::to_string(n));
  return "[" + join(words) + "]";
}

std::string text(const Box& box) { return text(box.extent) + " at " + text(box.offset); }

bool lies_inside(const Box& box, const Extent& shape) {
  if (box.extent.size() != shape.size() || box.offset.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d)
    if (box.offset[d] < 0 || box.extent[d] < 0 || box.offset[d] > shape[d] - box.extent[d])
      return false;
  return true;
}

void check_members(const ExtentSplit& split, const std::vector<int32_t>& members) {
  if (static_cast<size_t>(split.members()) != members.size())
    fail_invalid(
        strf("[topology] a split over %d members does not fit a group of %zu; split over the group",
             split.members(), members.size()));
}

}  // namespace

std::vector<Shard> tensor_shards(const Extent& shape, int32_t dimension, const ExtentSplit& split,
                                 const std::vector<int32_t>& members) {
  std::vector<Shard> shards;
  for (const int32_t rank : members)
    shards.push_back({rank, full_box(shape), {0, elements(shape)}});
  if (dimension < 0) return shards;
  check_members(split, members);
  const size_t d = static_cast<size_t>(dimension);
  if (d >= shape.size() || shape[d] != split.extent())
    fail_invalid(
        strf("[topology] a split of %lld elements does not fit dimension %d of a tensor %s",
             static_cast<long long>(split.extent()), dimension, text(shape).c_str()));
  for (size_t i = 0; i < shards.size(); ++i) {
    const Range range = split.range(static_cast<int32_t>(i));
    shards[i].box.offset[d] = range.begin;
    shards[i].box.extent[d] = range.size();
    shards[i].flat = {0, elements(shards[i].box)};
  }
  return shards;
}

std::vector<Shard> flat_shards(const Shard& shard, int64_t at, const ExtentSplit& split,
                               const std::vector<int32_t>& members) {
  check_members(split, members);
  std::vector<Shard> shards;
  for (size_t i = 0; i < members.size(); ++i) {
    const Range part = split.range(static_cast<int32_t>(i));
    const Range inside = intersect({part.begin - at, part.end - at}, shard.flat);
    shards.push_back({members[i], shard.box, inside.empty() ? Range{} : inside});
  }
  return shards;
}

ShardLayout::ShardLayout(Extent shape, std::vector<Shard> shards)
    : shape_(std::move(shape)), shards_(std::move(shards)) {
  for (size_t i = 0; i < shards_.size(); ++i) {
    const Shard& shard = shards_[i];
    if (!lies_inside(shard.box, shape_) || shard.flat.begin < 0 ||
        (!shard.flat.empty() && shard.flat.end > elements(shard.box)))
      fail_invalid(strf(
          "[topology] rank %d holds %s, elements %lld to %lld, which is not inside a tensor %s",
          shard.rank, text(shard.box).c_str(), static_cast<long long>(shard.flat.begin),
          static_cast<long long>(shard.flat.end), text(shape_).c_str()));
    for (Box& box : flat_boxes(shard.box, shard.flat)) shard_boxes_.push_back({i, std::move(box)});
  }
}

std::vector<int32_t> ShardLayout::holders(const Box& wanted) const {
  std::vector<int32_t> ranks;
  Box both;
  for (const ShardBox& piece : shard_boxes_)
    if (intersect(piece.box, wanted, both)) ranks.push_back(shards_[piece.shard].rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<ShardCopy> copies_to(const ShardLayout& from, const ShardLayout& to, size_t shard,
                                 const std::string& what) {
  if (from.shape() != to.shape())
    fail_invalid("[topology] '" + what + "' is " + text(from.shape()) + " in one layout and " +
                 text(to.shape()) + " in the other");
  const Shard& target = to.shards().at(shard);
  std::vector<ShardCopy> out;
  std::vector<Box> missing = flat_boxes(target.box, target.flat), left;
  const auto take = [&](const ShardLayout::ShardBox& piece) {
    left.clear();
    for (const Box& box : missing) {
      Box both;
      if (!intersect(box, piece.box, both)) {
        left.push_back(box);
        continue;
      }
      subtract(box, both, left);
      out.push_back({piece.shard, shard, std::move(both)});
    }
    missing.swap(left);
  };
  const auto& pieces = from.shard_boxes();
  const auto own = [&](const ShardLayout::ShardBox& piece) {
    return from.shards()[piece.shard].rank == target.rank;
  };
  for (size_t i = 0; i < pieces.size() && !missing.empty(); ++i)
    if (own(pieces[i])) take(pieces[i]);
  const size_t start = pieces.empty() ? 0 : static_cast<size_t>(target.rank) % pieces.size();
  for (size_t i = 0; i < pieces.size() && !missing.empty(); ++i) {
    const ShardLayout::ShardBox& piece = pieces[(start + i) % pieces.size()];
    if (!own(piece)) take(piece);
  }
  if (!missing.empty())
    fail(PLAIT_ERR_DATA, "[topology] no rank holds " + text(missing.front()) + " of '" + what +
                             "', which rank " + std::to_string(target.rank) + " needs");
  return out;
}

std::vector<ShardCopy> copies(const ShardLayout& from, const ShardLayout& to,
                              const std::string& what) {
  std::vector<ShardCopy> all;
  for (size_t i = 0; i < to.shards().size(); ++i)
    for (ShardCopy& copy : copies_to(from, to, i, what)) all.push_back(std::move(copy));
  return all;
}

std::vector<MemoryRun> runs(const ShardCopy& copy, const ShardLayout& from, const ShardLayout& to) {
  const Shard &source = from.shards().at(copy.from), &target = to.shards().at(copy.to);
  const size_t n = copy.box.extent.size();
  const int64_t width = n == 0 ? 1 : copy.box.extent[n - 1];
  const int64_t lines = width == 0 ? 0 : elements(copy.box) / width;
  std::vector<MemoryRun> out;
  Box line = copy.box;
  for (int64_t i = 0; i < lines; ++i) {
    int64_t rest = i;
    for (size_t d = n; d-- > 0;) {
      if (d + 1 == n) continue;
      line.offset[d] = copy.box.offset[d] + rest % copy.box.extent[d];
      rest /= copy.box.extent[d];
    }
    const int64_t a = flat_index(source.box, line) - source.flat.begin;
    const int64_t b = flat_index(target.box, line) - target.flat.begin;
    if (!out.empty() && out.back().from + out.back().count == a &&
        out.back().to + out.back().count == b)
      out.back().count += width;
    else
      out.push_back({a, b, width});
  }
  return out;
}

}  // namespace plait::topology

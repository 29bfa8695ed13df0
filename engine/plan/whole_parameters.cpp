#include "engine/plan/whole_parameters.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plait::plan {
namespace {

// Bins of one bucket, without names so far.
struct Bins {
  std::vector<std::vector<size_t>> members;  // by bin
  std::vector<int64_t> sizes;
  int64_t largest() const { return *std::max_element(sizes.begin(), sizes.end()); }
};

Bins fill(const std::vector<PackItem>& items, std::vector<size_t> chosen, int64_t replicas) {
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](size_t a, size_t b) { return items[a].elements > items[b].elements; });
  Bins bins{std::vector<std::vector<size_t>>(static_cast<size_t>(replicas)),
            std::vector<int64_t>(static_cast<size_t>(replicas), 0)};
  for (const size_t i : chosen) {
    const auto least = static_cast<size_t>(std::min_element(bins.sizes.begin(), bins.sizes.end()) -
                                           bins.sizes.begin());
    bins.members[least].push_back(i);
    bins.sizes[least] += items[i].elements;
  }
  return bins;
}

int64_t sum_of(const std::vector<PackItem>& items, const std::vector<size_t>& chosen) {
  return std::accumulate(chosen.begin(), chosen.end(), int64_t{0},
                         [&](int64_t sum, size_t i) { return sum + items[i].elements; });
}

class Packer {
 public:
  Packer(const std::vector<PackItem>& items, const PackLimits& limits, std::vector<int64_t>& loads)
      : items_(items), limits_(limits), loads_(loads) {}

  std::vector<PackedBucket> run() {
    std::vector<size_t> open;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!open.empty() && items_[i].may_end && is_full(open)) close(std::exchange(open, {}));
      open.push_back(i);
    }
    if (!open.empty()) close(std::move(open));
    return std::move(buckets_);
  }

 private:
  int64_t padding(const std::vector<size_t>& chosen) const {
    return fill(items_, chosen, limits_.replicas).largest() * limits_.replicas -
           sum_of(items_, chosen);
  }
  // More parameters divide more evenly; beyond a few for each replica it no longer helps.
  bool is_full(const std::vector<size_t>& open) const {
    const int64_t sum = sum_of(items_, open);
    return sum >= limits_.bucket &&
           (padding(open) <= sum / 8 || static_cast<int64_t>(open.size()) >= 4 * limits_.replicas);
  }

  void close(std::vector<size_t> chosen) {
    // The largest go into buckets of their own until the rest divides well. What is small beside a
    // bucket costs less as padding than as a collective.
    while (!chosen.empty() &&
           padding(chosen) > std::max(sum_of(items_, chosen) / 4, limits_.bucket / 16)) {
      const auto largest = std::max_element(chosen.begin(), chosen.end(), [&](size_t a, size_t b) {
        return items_[a].elements < items_[b].elements;
      });
      add_alone(*largest);
      chosen.erase(largest);
    }
    if (!chosen.empty()) add_packed(fill(items_, std::move(chosen), limits_.replicas));
  }

  void add_alone(size_t i) {
    PackedBucket bucket;
    const auto owner = std::min_element(loads_.begin(), loads_.end()) - loads_.begin();
    bucket.members = {i};
    bucket.owner = static_cast<int32_t>(owner);
    bucket.places = {{bucket.owner, 0}};
    bucket.alone = items_[i].elements;
    loads_[static_cast<size_t>(owner)] += items_[i].elements;
    buckets_.push_back(std::move(bucket));
  }

  // The fullest bin goes to the replica with the least.
  void add_packed(const Bins& bins) {
    const auto n = bins.sizes.size();
    std::vector<size_t> by_size(n), by_load(n), bin_of(n);
    std::iota(by_size.begin(), by_size.end(), 0);
    std::iota(by_load.begin(), by_load.end(), 0);
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](size_t a, size_t b) { return bins.sizes[a] > bins.sizes[b]; });
    std::stable_sort(by_load.begin(), by_load.end(),
                     [&](size_t a, size_t b) { return loads_[a] < loads_[b]; });
    for (size_t k = 0; k < n; ++k) bin_of[by_load[k]] = by_size[k];
    PackedBucket bucket;
    bucket.shard = bins.largest();
    for (size_t r = 0; r < n; ++r) {
      int64_t at = static_cast<int64_t>(r) * bucket.shard;
      for (const size_t i : bins.members[bin_of[r]]) {
        bucket.members.push_back(i);
        bucket.places.push_back({static_cast<int32_t>(r), at});
        at += items_[i].elements;
      }
      loads_[r] += bins.sizes[bin_of[r]];
    }
    buckets_.push_back(std::move(bucket));
  }

  const std::vector<PackItem>& items_;
  const PackLimits& limits_;
  std::vector<int64_t>& loads_;
  std::vector<PackedBucket> buckets_;
};

}  // namespace

int64_t PackedBucket::elements(int64_t replicas) const {
  return shard > 0 ? shard * replicas : alone;
}

std::vector<PackedBucket> pack_whole(const std::vector<PackItem>& items, const PackLimits& limits,
                                     std::vector<int64_t>& loads) {
  return Packer(items, limits, loads).run();
}

}  // namespace plait::plan

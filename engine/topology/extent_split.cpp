#include "engine/topology/extent_split.hpp"

#include "engine/base/checked.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/topology/grid_check.hpp"

namespace plait::topology {

namespace {

void check(int64_t extent, int32_t members) {
  if (extent < 0 || members < 1)
    fail_invalid(
        strf("[topology] cannot cut %lld elements over %d members; expected 0 or more elements "
             "and 1 or more members",
             static_cast<long long>(extent), members));
}

// "topology.tensor = 3 does not divide 8 rows of 'w'; use tensor = 2, or 6 or 9 rows".
[[noreturn]] void fail_uneven(int64_t extent, int32_t members, const std::string& what) {
  const int64_t below = extent / members * members;
  std::string other = below > 0 ? std::to_string(below) + " or " : "";
  other += std::to_string(below + members);
  fail_config(
      strf("[topology] topology.tensor = %d does not divide the %lld %s; use tensor = %lld, or "
           "%s of them",
           members, static_cast<long long>(extent), what.c_str(),
           static_cast<long long>(nearest_divisor(std::max<int64_t>(1, extent), members)),
           other.c_str()));
}

}  // namespace

ExtentSplit ExtentSplit::even(int64_t extent, int32_t members, const std::string& what) {
  check(extent, members);
  if (extent % members != 0) fail_uneven(extent, members, what);
  return {extent, members, extent / members, 0, 1};
}

ExtentSplit ExtentSplit::balanced(int64_t extent, int32_t members) {
  check(extent, members);
  return {extent, members, extent / members, extent % members, 1};
}

ExtentSplit ExtentSplit::padded(int64_t extent, int32_t members, int64_t unit) {
  check(extent, members);
  if (unit < 1)
    fail_invalid("[topology] cannot pad to a multiple of " + std::to_string(unit) +
                 "; expected 1 or more");
  const int64_t needed = extent / members + (extent % members != 0);
  const std::string what = "a padded part of " + std::to_string(extent) + " elements";
  const int64_t shard = checked_mul(needed / unit + (needed % unit != 0), unit, what);
  checked_mul<int64_t>(shard, members, what);
  return {extent, members, shard, 0, 1};
}

ExtentSplit ExtentSplit::heads(int64_t extent, int32_t members, const std::string& what) {
  check(extent, members);
  if (extent % members == 0) return {extent, members, extent / members, 0, 1};
  if (members % extent != 0) fail_uneven(extent, members, what);
  return {extent, members, 1, 0, static_cast<int32_t>(members / extent)};
}

ExtentSplit ExtentSplit::replicated(int64_t extent, int32_t members) {
  check(extent, members);
  return {extent, members, extent, 0, members};
}

ExtentSplit ExtentSplit::flat(int64_t extent, int32_t members, int64_t element_bytes) {
  if (element_bytes < 1 || kShardAlignment % element_bytes != 0)
    fail_invalid(
        strf("[topology] elements of %lld bytes cannot be cut at multiples of %lld bytes; expected "
             "a size that divides it",
             static_cast<long long>(element_bytes), static_cast<long long>(kShardAlignment)));
  return padded(extent, members, kShardAlignment / element_bytes);
}

int64_t ExtentSplit::padded_extent() const { return shard_ * (members_ / replicas_) + larger_; }

Range ExtentSplit::padded_range(int32_t member) const {
  if (member < 0 || member >= members_)
    fail_invalid(strf("[topology] member %d of a group of %d; expected 0 to %d", member, members_,
                      members_ - 1));
  const int64_t i = member / replicas_;
  const int64_t begin = i * shard_ + std::min(i, larger_);
  return {begin, begin + shard_ + (i < larger_)};
}

int64_t ExtentSplit::shard_of(int64_t element) const {
  const int64_t in_front = larger_ * (shard_ + 1);  // elements of the larger parts
  return element < in_front ? element / (shard_ + 1) : larger_ + (element - in_front) / shard_;
}

Range ExtentSplit::holders(const Range& wanted) const {
  const Range clipped = intersect(wanted, {0, extent_});
  if (clipped.empty()) return {};
  return {shard_of(clipped.begin) * replicas_, (shard_of(clipped.end - 1) + 1) * replicas_};
}

}  // namespace plait::topology

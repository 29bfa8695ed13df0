#include "engine/topology/batch.hpp"

#include <algorithm>
#include <string>

#include "engine/topology/grid_check.hpp"

namespace plait::topology {

namespace {

std::string number(int64_t n) { return std::to_string(n); }

// "60 or 72": the multiples of `unit` around n.
std::string multiples_around(int64_t n, int64_t unit) {
  const int64_t below = n / unit * unit;
  std::string text = below > 0 ? number(below) : "";
  if (below <= INT64_MAX - unit) text += (text.empty() ? "" : " or ") + number(below + unit);
  return text;
}

void check_share(const BatchSizes& b, int64_t data, std::vector<TopologyError>& errors) {
  const int64_t share = b.global / data;
  if (b.micro > 0 && b.accumulation > 0) {
    if (share % b.micro == 0 && share / b.micro == b.accumulation) return;
    const std::string good = share % b.micro == 0 ? "use accumulation = " + number(share / b.micro)
                                                  : "leave one of the three out";
    errors.push_back({"batch.accumulation",
                      number(b.accumulation) + " micro-batches of " + number(b.micro) + " on " +
                          number(data) + " replicas are not " + number(b.global) +
                          " samples (batch.global)",
                      good});
  } else if (b.micro > 0 && share % b.micro != 0) {
    errors.push_back(
        {"batch.micro",
         number(b.micro) + " does not divide a replica's share of " + number(share) + " samples",
         "use micro = " + number(nearest_divisor(share, b.micro))});
  } else if (b.accumulation > 0 && share % b.accumulation != 0) {
    errors.push_back({"batch.accumulation",
                      number(b.accumulation) + " does not divide a replica's share of " +
                          number(share) + " samples",
                      "use accumulation = " + number(nearest_divisor(share, b.accumulation))});
  }
}

}  // namespace

std::vector<TopologyError> check_batch(const BatchSizes& b, int64_t data) {
  std::vector<TopologyError> errors;
  const auto sign = [&](const char* key, int64_t value) {
    if (value < 0)
      errors.push_back({key, "found " + number(value) + ", expected 1 or more",
                        "leave it out to have it computed"});
  };
  sign("batch.global", b.global);
  sign("batch.micro", b.micro);
  sign("batch.accumulation", b.accumulation);
  if (!errors.empty()) return errors;
  if (b.global == 0 && b.micro == 0) {
    errors.push_back({"batch.global", "neither it nor batch.micro is given", "give one of them"});
  } else if (b.global == 0) {
    int64_t product = 0;
    if (__builtin_mul_overflow(b.micro, std::max<int64_t>(1, b.accumulation), &product) ||
        __builtin_mul_overflow(product, data, &product))
      errors.push_back(
          {"batch.micro", "micro * accumulation * data is beyond 64 bits", "lower one"});
  } else if (b.global % data != 0) {
    errors.push_back({"batch.global",
                      number(b.global) + " samples cannot be shared by " + number(data) +
                          " replicas (topology.data)",
                      "use global = " + multiples_around(b.global, data) +
                          ", or data = " + number(nearest_divisor(b.global, data))});
  } else {
    check_share(b, data, errors);
  }
  return errors;
}

std::vector<TopologyError> check_eval(int64_t eval, int64_t data) {
  if (eval % data == 0) return {};
  return {
      {"batch.eval",
       number(eval) + " samples cannot be shared by " + number(data) + " replicas (topology.data)",
       "use eval = " + multiples_around(eval, data)}};
}

BatchSizes solve_batch(const BatchSizes& batch, int64_t data) {
  raise_if_any(check_batch(batch, data));
  BatchSizes b = batch;
  if (b.global == 0) {
    if (b.accumulation == 0) b.accumulation = 1;
    b.global = b.micro * b.accumulation * data;
  }
  const int64_t share = b.global / data;
  if (b.micro == 0) b.micro = share / std::max<int64_t>(1, b.accumulation);
  b.accumulation = share / b.micro;
  return b;
}

Range rows(const BatchSizes& batch, int32_t replicas, int32_t data, int64_t micro) {
  const int64_t begin = batch.global / replicas * data + batch.micro * micro;
  return {begin, begin + batch.micro};
}

}  // namespace plait::topology

#include "engine/topology/grid_check.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "engine/topology/batch.hpp"
#include "engine/topology/grid.hpp"

namespace plait::topology {

namespace {

std::string number(int64_t n) { return std::to_string(n); }

std::string ranks(int64_t n) { return number(n) + (n == 1 ? " rank" : " ranks"); }

std::string text(const Sizes& s) {
  return "pipeline = " + number(s.pipeline) + ", data = " + number(s.data) +
         ", tensor = " + number(s.tensor);
}

// How far `to` is from `from`, as the header orders it.
auto distance(const Sizes& from, const Sizes& to) {
  const bool pipeline = from.pipeline != to.pipeline, data = from.data != to.data,
             tensor = from.tensor != to.tensor;
  const auto ratio = [](int64_t a, int64_t b) {
    return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
  };
  const double factors =
      ratio(from.pipeline, to.pipeline) + ratio(from.data, to.data) + ratio(from.tensor, to.tensor);
  return std::tuple(pipeline + data + tensor, tensor, pipeline, factors, to.pipeline, to.tensor);
}

bool fits(const Demand& d, const Sizes& s) {
  if (d.layers > 0 && s.pipeline > d.layers / std::max<int64_t>(1, d.chunks)) return false;
  return d.global <= 0 || d.global % s.data == 0;
}

void check_world(const Demand& d, std::vector<Fault>& faults) {
  const int64_t product = d.sizes.pipeline * d.sizes.data * d.sizes.tensor;
  if (d.world <= 0 || product == d.world) return;
  const std::optional<Sizes> other = nearest_sizes(d);
  faults.push_back({"topology",
                    text(d.sizes) + " make " + ranks(product) + ", but " + number(d.world) +
                        (d.world == 1 ? " was started" : " were started"),
                    (other ? "use " + text(*other) + ", or start " : "start ") + ranks(product)});
}

void check_layers(const Demand& d, std::vector<Fault>& faults) {
  if (d.layers <= 0) return;
  const int64_t chunks = std::max<int64_t>(1, d.chunks);
  if (d.sizes.pipeline <= d.layers / chunks) return;
  const std::string stages = chunks == 1 ? number(d.sizes.pipeline) + " stages"
                                         : number(d.sizes.pipeline) +
                                               " ranks with topology.chunks = " + number(chunks) +
                                               " stages each";
  std::string hint = "use pipeline = " + number(std::max<int64_t>(1, d.layers / chunks));
  if (chunks > d.layers)
    hint += " and chunks = 1";
  else if (chunks > 1 && d.sizes.pipeline <= d.layers)
    hint += ", or chunks = " + number(d.layers / d.sizes.pipeline);
  faults.push_back({"topology.pipeline",
                    number(d.layers) + (d.layers == 1 ? " layer" : " layers") + " cannot fill " +
                        stages + ", each needs one or more",
                    hint});
}

}  // namespace

int64_t nearest_divisor(int64_t n, int64_t wanted) {
  constexpr int64_t kMostTried = 1 << 20;
  int64_t best = 1;
  const auto consider = [&](int64_t divisor) {
    const int64_t a = std::abs(divisor - wanted), b = std::abs(best - wanted);
    if (a < b || (a == b && divisor < best)) best = divisor;
  };
  for (int64_t i = 1; i <= std::min(n / i, kMostTried); ++i) {
    if (n % i != 0) continue;
    consider(i);
    consider(n / i);
  }
  return best;
}

std::optional<Sizes> nearest_sizes(const Demand& demand) {
  std::optional<Sizes> best;
  const int64_t world = demand.world;
  if (world > kMaxRanks) return best;
  for (int64_t pipeline = 1; pipeline <= world; ++pipeline) {
    if (world % pipeline != 0) continue;
    const int64_t rest = world / pipeline;
    for (int64_t data = 1; data <= rest; ++data) {
      if (rest % data != 0) continue;
      const Sizes candidate{pipeline, data, rest / data};
      if (!fits(demand, candidate)) continue;
      if (!best || distance(demand.sizes, candidate) < distance(demand.sizes, *best))
        best = candidate;
    }
  }
  return best;
}

std::vector<Fault> check_sizes(const Sizes& sizes) {
  std::vector<Fault> faults;
  const auto check = [&](const char* key, int64_t size) {
    if (size >= 1 && size <= kMaxRanks) return;
    faults.push_back(
        {std::string("topology.") + key,
         number(size) + " ranks, expected 1 to " + number(kMaxRanks),
         size < 1 ? "use 1 where nothing is split" : "use " + number(kMaxRanks) + " or less"});
  };
  check("pipeline", sizes.pipeline);
  check("data", sizes.data);
  check("tensor", sizes.tensor);
  // Each is at most 2^20 here, so the product of three fits in 64 bits.
  if (faults.empty() && sizes.pipeline * sizes.data * sizes.tensor > kMaxRanks)
    faults.push_back({"topology",
                      text(sizes) + " make " + number(sizes.pipeline * sizes.data * sizes.tensor) +
                          " ranks, more than " + number(kMaxRanks),
                      "lower one of them"});
  return faults;
}

std::vector<Fault> check_grid(const Demand& demand) {
  std::vector<Fault> faults = check_sizes(demand.sizes);
  if (!faults.empty()) return faults;
  check_world(demand, faults);
  check_layers(demand, faults);
  if (demand.global > 0) {
    const std::vector<Fault> more =
        check_batch({demand.global, demand.micro, demand.accumulation}, demand.sizes.data);
    faults.insert(faults.end(), more.begin(), more.end());
  }
  const std::vector<Fault> more = check_eval(demand.eval, demand.sizes.data);
  faults.insert(faults.end(), more.begin(), more.end());
  return faults;
}

}  // namespace plait::topology

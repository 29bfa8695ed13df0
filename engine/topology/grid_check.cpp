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

std::string text(const GridSizes& s) {
  return "pipeline = " + number(s.pipeline) + ", data = " + number(s.data) +
         ", tensor = " + number(s.tensor);
}

// The distance from `from` to `to`, ordered as described in the header.
auto distance(const GridSizes& from, const GridSizes& to) {
  const bool pipeline = from.pipeline != to.pipeline, data = from.data != to.data,
             tensor = from.tensor != to.tensor;
  const auto ratio = [](int64_t a, int64_t b) {
    return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
  };
  const double factors =
      ratio(from.pipeline, to.pipeline) + ratio(from.data, to.data) + ratio(from.tensor, to.tensor);
  return std::tuple(pipeline + data + tensor, tensor, pipeline, factors, to.pipeline, to.tensor);
}

bool fits(const GridRequest& d, const GridSizes& s) {
  if (d.layers > 0 && s.pipeline > d.layers / std::max<int64_t>(1, d.chunks)) return false;
  return d.global <= 0 || d.derived || d.global % s.data == 0;
}

// Why more replicas are not what to use; "" if they could be.
std::string why_not_replicas(const GridRequest& d) {
  const int64_t others = d.sizes.pipeline * d.sizes.tensor;
  if (d.world % others != 0 || d.global <= 0 || d.derived) return "";
  if (d.global % (d.world / others) == 0) return "";
  return "data = " + number(d.world / others) +
         " does not divide batch.global = " + number(d.global) + "; ";
}

void check_world(const GridRequest& d, std::vector<TopologyError>& errors) {
  const int64_t product = d.sizes.pipeline * d.sizes.data * d.sizes.tensor;
  if (d.world <= 0 || product == d.world) return;
  const std::optional<GridSizes> other = nearest_sizes(d);
  const std::string why = why_not_replicas(d);
  errors.push_back({"topology",
                    text(d.sizes) + " make " + ranks(product) + ", but " + number(d.world) +
                        (d.world == 1 ? " was started" : " were started"),
                    why + (other ? "use " + text(*other) + ", or start " : "start ") +
                        ranks(product) +
                        (why.empty() && d.world % (d.sizes.pipeline * d.sizes.tensor) == 0
                             ? "; with topology.data=0 the ranks decide"
                             : "")});
}

void check_layers(const GridRequest& d, std::vector<TopologyError>& errors) {
  if (d.layers <= 0) return;
  const int64_t chunks = std::max<int64_t>(1, d.chunks);
  if (d.sizes.pipeline <= d.layers / chunks) return;
  const std::string stages =
      chunks == 1 ? number(d.sizes.pipeline) + " stages"
                  : number(d.sizes.pipeline) +
                        " ranks with topology.virtual_stages = " + number(chunks) + " stages each";
  std::string hint = "use pipeline = " + number(std::max<int64_t>(1, d.layers / chunks));
  if (chunks > d.layers)
    hint += " and virtual_stages = 1";
  else if (chunks > 1 && d.sizes.pipeline <= d.layers)
    hint += ", or virtual_stages = " + number(d.layers / d.sizes.pipeline);
  errors.push_back({"topology.pipeline",
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

std::optional<GridSizes> nearest_sizes(const GridRequest& request) {
  std::optional<GridSizes> best;
  const int64_t world = request.world;
  if (world > kMaxRanks) return best;
  for (int64_t pipeline = 1; pipeline <= world; ++pipeline) {
    if (world % pipeline != 0) continue;
    const int64_t rest = world / pipeline;
    for (int64_t data = 1; data <= rest; ++data) {
      if (rest % data != 0) continue;
      const GridSizes candidate{pipeline, data, rest / data};
      if (!fits(request, candidate)) continue;
      if (!best || distance(request.sizes, candidate) < distance(request.sizes, *best))
        best = candidate;
    }
  }
  return best;
}

std::vector<TopologyError> check_sizes(const GridSizes& sizes) {
  std::vector<TopologyError> errors;
  const auto check = [&](const char* key, int64_t size) {
    if (size >= 1 && size <= kMaxRanks) return;
    errors.push_back({std::string("topology.") + key,
                      number(size) + " ranks, expected 1 to " + number(kMaxRanks),
                      size < 1 ? "use 1 for an axis that is not used"
                               : "use " + number(kMaxRanks) + " or less"});
  };
  check("pipeline", sizes.pipeline);
  check("data", sizes.data);
  check("tensor", sizes.tensor);
  // Each is at most 2^20 here, so the product of three fits in 64 bits.
  if (errors.empty() && sizes.pipeline * sizes.data * sizes.tensor > kMaxRanks)
    errors.push_back({"topology",
                      text(sizes) + " make " + number(sizes.pipeline * sizes.data * sizes.tensor) +
                          " ranks, more than " + number(kMaxRanks),
                      "lower one of them"});
  return errors;
}

std::vector<TopologyError> check_grid(const GridRequest& request) {
  std::vector<TopologyError> errors = check_sizes(request.sizes);
  if (!errors.empty()) return errors;
  check_world(request, errors);
  check_layers(request, errors);
  if (request.global > 0) {
    const std::vector<TopologyError> more =
        check_batch({request.global, request.micro, request.accumulation}, request.sizes.data);
    errors.insert(errors.end(), more.begin(), more.end());
  }
  const std::vector<TopologyError> more = check_eval(request.eval, request.sizes.data);
  errors.insert(errors.end(), more.begin(), more.end());
  return errors;
}

}  // namespace plait::topology

#include "engine/topology/stages.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/topology/grid_check.hpp"

namespace plait::topology {

namespace {

void check_counts(int64_t layers, const PipelineShape& shape) {
  if (shape.chunks < 1)
    raise_if_any({{"topology.virtual_stages",
                   "found " + std::to_string(shape.chunks) + ", expected 1 or more",
                   "use 1 for one stage on each rank"}});
  if (layers < 1)
    raise_if_any(
        {{"topology.pipeline", "there are no layers to divide into stages", "add layers"}});
  GridRequest request;
  request.sizes.pipeline = shape.ranks;
  request.layers = layers;
  request.chunks = shape.chunks;
  raise_if_any(check_grid(request));
}

// cost(a, b) of layers [a, b), from prefix sums.
class Sums {
 public:
  explicit Sums(const std::vector<double>& costs) : sums_(costs.size() + 1, 0) {
    for (size_t i = 0; i < costs.size(); ++i) sums_[i + 1] = sums_[i] + costs[i];
  }
  double operator()(size_t a, size_t b) const { return sums_[b] - sums_[a]; }

 private:
  std::vector<double> sums_;
};

constexpr double kNever = std::numeric_limits<double>::infinity();

// The smallest possible cost of the heaviest stage: best[k] is that of the layers from k on in s
// stages.
double min_max_cost(const Sums& cost, size_t layers, size_t stages) {
  std::vector<double> best(layers + 1, kNever);
  best[layers] = 0;
  for (size_t s = 1; s <= stages; ++s) {
    std::vector<double> next(layers + 1, kNever);
    for (size_t a = 0; a < layers; ++a)
      for (size_t b = a + 1; b <= layers && cost(a, b) < next[a]; ++b)
        next[a] = std::min(next[a], std::max(cost(a, b), best[b]));
    best.swap(next);
  }
  return best[0];
}

}  // namespace

std::vector<Range> stages_by_count(int64_t layers, const PipelineShape& shape) {
  check_counts(layers, shape);
  const ExtentSplit split = ExtentSplit::balanced(layers, shape.stages());
  std::vector<Range> stages;
  for (int32_t s = 0; s < shape.stages(); ++s) stages.push_back(split.range(s));
  return stages;
}

std::vector<Range> stages_by_cost(const std::vector<double>& costs, const PipelineShape& shape) {
  const size_t layers = costs.size();
  check_counts(static_cast<int64_t>(layers), shape);
  const size_t stages = static_cast<size_t>(shape.stages());
  for (size_t i = 0; i < layers; ++i)
    if (!(costs[i] >= 0) || std::isinf(costs[i]))
      fail_invalid(strf("[topology] layer %zu costs %s, expected a finite number of 0 or more", i,
                        real_text(costs[i]).c_str()));
  const Sums cost(costs);
  if (std::isinf(cost(0, layers)))
    fail_invalid("[topology] the costs of the layers add up to infinity; use a larger unit");
  const double limit = min_max_cost(cost, layers, stages);
  // A power of two, so that scaling does not round; squares of scaled values do not overflow.
  const int scale = limit > 0 ? -std::ilogb(limit) : 0;

  // Second pass with that limit: squares[s][a] is the smallest sum of squares of the layers from a
  // on in s stages, and end[s][a] the end of the first of these stages.
  std::vector<std::vector<double>> squares(stages + 1, std::vector<double>(layers + 1, kNever));
  std::vector<std::vector<size_t>> end(stages + 1, std::vector<size_t>(layers + 1, 0));
  squares[0][layers] = 0;
  for (size_t s = 1; s <= stages; ++s) {
    for (size_t a = 0; a < layers; ++a) {
      for (size_t b = a + 1; b <= layers && cost(a, b) <= limit; ++b) {
        const double scaled = std::ldexp(cost(a, b), scale),
                     sum = scaled * scaled + squares[s - 1][b];
        if (sum >= squares[s][a]) continue;
        squares[s][a] = sum;
        end[s][a] = b;
      }
    }
  }
  std::vector<Range> out;
  for (size_t s = stages, a = 0; s > 0; a = end[s][a], --s)
    out.push_back({static_cast<int64_t>(a), static_cast<int64_t>(end[s][a])});
  return out;
}

std::vector<Range> stages_explicit(const std::vector<int64_t>& layers_of_stage, int64_t layers,
                                   const PipelineShape& shape) {
  check_counts(layers, shape);
  std::vector<TopologyError> errors;
  const std::string key = "topology.stages";
  const std::string expected = std::to_string(shape.stages());
  const size_t given = layers_of_stage.size(), chunks = static_cast<size_t>(shape.chunks);
  if (given != static_cast<size_t>(shape.stages()))
    errors.push_back({key,
                      std::to_string(given) + " numbers, expected " + expected +
                          " (topology.pipeline = " + std::to_string(shape.ranks) +
                          (chunks > 1 ? ", virtual_stages = " + std::to_string(chunks) : "") + ")",
                      "give the number of layers of each stage" +
                          (given > 0 && given % chunks == 0
                               ? ", or use topology.pipeline = " + std::to_string(given / chunks)
                               : std::string())});
  std::vector<Range> out;
  int64_t at = 0;
  for (const int64_t count : layers_of_stage) {
    // A number beyond the remaining layers is wrong, and adding it could wrap around.
    if (count < 1 || count > layers)
      errors.push_back({key,
                        "stage " + std::to_string(out.size()) + " has " + std::to_string(count) +
                            " layers, expected 1 to " + std::to_string(layers),
                        "every stage needs a layer"});
    else
      at += count;
    out.push_back({at - count, at});
    if (!errors.empty()) break;
  }
  if (errors.empty() && at != layers) {
    const int64_t last = layers_of_stage.back() + layers - at;
    errors.push_back({key,
                      "the stages have " + std::to_string(at) + " layers, the model has " +
                          std::to_string(layers),
                      last >= 1 ? "use " + std::to_string(last) + " for the last stage"
                                : "give fewer layers to the stages"});
  }
  raise_if_any(errors);
  return out;
}

double max_stage_cost(const std::vector<double>& costs, const std::vector<Range>& stages) {
  double most = 0;
  for (const Range& stage : stages) {
    double sum = 0;
    for (int64_t i = stage.begin; i < stage.end; ++i) sum += costs[static_cast<size_t>(i)];
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace plait::topology

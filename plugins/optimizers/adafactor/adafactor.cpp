// optimizer-adafactor: mean squared gradients of a matrix, kept as the means of rows and columns
// (Shazeer and Stern 2018, arXiv:1804.04235), as torch.optim.Adafactor has it. In place of the
// paper's ε1, which is added to squared gradients, the estimate is at least eps1². The matrix of
// each expert is a tensor of its own.
#include <plait/plugin.hpp>

#include <cmath>

#include "plugins/optimizers/groups.hpp"

namespace {
using namespace plait;

constexpr plait_option kAdafactor[] = {
    at_most(opt_real("beta2_decay", "-0.8",
                     "step^beta2_decay is the weight of new squares in their running mean"),
            0),
    above(opt_real("eps1", "1.1920929e-7", "least root of a mean squared gradient"), 0),
    at_least(
        opt_real("eps2", "1e-3", "least root mean square of a parameter that scales its steps"), 0),
    at_least(opt_real("clip_threshold", "1.0", "greatest root mean square of an update"), 1),
};

uint32_t scope_of(const Options&, const plait_parameter_info& p) {
  if (p.flags & PLAIT_PARAMETER_ELEMENTWISE)
    fail(
        PLAIT_ERR_CONFIG,
        "[adafactor] has no element-wise rule: each step depends on the norm of the tensor; remove "
        "elementwise = true from the group");
  return PLAIT_SCOPE_TENSOR;
}

Value root_mean_square(const Builder& b, const Update& u, Value x) {
  const auto n = static_cast<double>(groups::count(b, u, x));
  return sqrt(groups::sum_squares(b, u, x)) * (1 / std::sqrt(n));
}

// The running mean of `squares`, with `weight` for the new ones.
Value running_mean(const Builder& b, const char* name, Value old, Value squares, Value weight) {
  const Value mean = old + weight * (squares - old);
  b.set_state(name, mean);
  return mean;
}

// The mean of x² along one axis, which goes.
Value mean_square(const Builder& b, Value x, int64_t axis) {
  const int64_t axes[] = {axis};
  const Value sum = b.op("reduce", {x},
                         {attr("kind", "sum_squares"), attr("axes", std::span<const int64_t>(axes)),
                          attr("keep", false)});
  return sum * (1 / static_cast<double>(b.shape(x).dims[static_cast<size_t>(axis)]));
}

// The mean squared gradient of each element: of a matrix (.., R, C) from its rows (.., R) and
// columns (.., C).
Value estimate(const Builder& b, const Options& o, const Update& u, Value weight) {
  const Shape shape = b.shape(u.parameter);
  const auto n = static_cast<int32_t>(shape.ndim());
  if (n < (groups::of(u) ? 3 : 2))
    return running_mean(b, "variance", b.state("variance"), u.gradient * u.gradient, weight);
  std::vector<int32_t> of_rows, of_columns;  // dimensions
  for (int32_t d = 0; d < n; ++d) {
    if (d != n - 1) of_rows.push_back(d);
    if (d != n - 2) of_columns.push_back(d);
  }
  const auto state = [&](const char* name, const std::vector<int32_t>& dims) {
    std::vector<int64_t> extents;
    for (const int32_t d : dims) extents.push_back(shape.dims[static_cast<size_t>(d)]);
    return b.tensor_state(name, Shape(extents), dims);
  };
  const Value rows =
      running_mean(b, "rows", state("rows", of_rows), mean_square(b, u.gradient, n - 1), weight);
  const Value columns = running_mean(b, "columns", state("columns", of_columns),
                                     mean_square(b, u.gradient, n - 2), weight);
  std::vector<int64_t> row_dims = shape.dims, column_dims = shape.dims;
  row_dims.back() = 1;
  column_dims[static_cast<size_t>(n) - 2] = 1;
  const Value mean = b.sum(b.reshape(rows, row_dims), {n - 2}) *
                     (1 / static_cast<double>(shape.dims[static_cast<size_t>(n) - 2]));
  return b.reshape(rows, row_dims) / max(mean, o.real("eps1")) * b.reshape(columns, column_dims);
}

Value build_adafactor(Builder& b, const Options& o, const Update& u) {
  const double eps1 = o.real("eps1");
  const Value weight = pow(u.step, o.real("beta2_decay"));
  const Value size = max(root_mean_square(b, u, u.parameter), o.real("eps2"));
  const Value rate = min(u.learning_rate, rsqrt(u.step));
  const Value update = u.gradient * rsqrt(max(estimate(b, o, u, weight), eps1 * eps1));
  const Value clipped = max(root_mean_square(b, u, update) * (1 / o.real("clip_threshold")), 1.0);
  const Value decayed = u.parameter * (1.0 - u.learning_rate * u.weight_decay);
  return decayed - (size * rate / clipped) * update;
}
}  // namespace

PLAIT_PLUGIN("optimizer-adafactor", "0.1.0", "Apache-2.0", "Adafactor") {
  static const auto adafactor = optimizer<build_adafactor, scope_of>(
      "adafactor", "Adam's scaling from row and column means: almost no state", 1e-2, 0,
      kAdafactor);
  host.add(adafactor);
}

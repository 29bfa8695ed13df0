// optimizer-muon: the momentum of a matrix, orthogonalised (Jordan et al. 2024,
// https://kellerjordan.github.io/posts/muon), as torch.optim.Muon has it but in the type of
// [precision] instead of bf16. AdamW updates what is no matrix, tables of embeddings, the last
// layer, and what a group asks for with elementwise = true. Of experts each matrix is one.
#include "plugins/optimizers/groups.hpp"
#include "plugins/optimizers/moments.hpp"

namespace {
using namespace plait;

constexpr plait_option kMuon[] = {
    below(at_least(opt_real("momentum", "0.95", "decay of the mean of gradients"), 0), 1),
    opt_bool("nesterov", "true", "Nesterov momentum"),
    at_most(at_least(opt_int("iterations", "5", "of Newton and Schulz"), 1), 99),
    opt_reals("coefficients", "[3.4445, -4.775, 2.0315]",
              "a, b, c of an iteration: a·X + b·XXᵀX + c·(XXᵀ)²X"),
    above(opt_real("eps", "1e-7", "least norm that a matrix is divided by"), 0),
    opt_choice("scale", "\"spectral\"", "spectral|rms|none",
               "of the step of a matrix (R, C): spectral √max(1, R/C), rms 0.2·√max(R, C) as large "
               "as AdamW's, none 1"),
    opt_bool("head", "false", "true: orthogonalise the last layer's matrix, too"),
    at_least(opt_real("adamw_ratio", "1.0", "learning rate of AdamW relative to `learning_rate`"),
             0),
    moments::kOptions[0],
    moments::kOptions[1],
    above(opt_real("adamw_eps", "1e-8", "AdamW: added to the root of the mean squared gradient"),
          0),
};

uint32_t scope_of(const Options& o, const plait_parameter_info& p) {
  uint32_t not_these = PLAIT_PARAMETER_TABLE | PLAIT_PARAMETER_ELEMENTWISE;
  if (!o.flag("head")) not_these |= PLAIT_PARAMETER_OUTPUT;
  const uint32_t of_matrix = p.flags & PLAIT_PARAMETER_GROUPED ? 3 : 2;
  return p.shape.ndim >= of_matrix && !(p.flags & not_these) ? PLAIT_SCOPE_TENSOR
                                                             : PLAIT_SCOPE_ELEMENT;
}

Value build_adamw(const Builder& b, const Options& o, const Update& u) {
  const Value rate = u.learning_rate * o.real("adamw_ratio");
  return u.parameter * (1.0 - rate * u.weight_decay) -
         rate * moments::direction(b, o, u, u.gradient, "adamw_eps");
}

// About U·Vᵀ of the singular value decomposition of each matrix of x (.., R, C): singular values
// between 0.7 and 1.2.
Value orthogonalized(const Builder& b, const Options& o, const Update& u, Value x) {
  const auto abc = o.reals("coefficients");
  if (abc.size() != 3)
    fail(PLAIT_ERR_CONFIG, "[muon] coefficients has " + std::to_string(abc.size()) +
                               " numbers, expected 3: a, b, c; at " + o.origin("coefficients"));
  const Shape shape = b.shape(x);
  const bool stack = shape.ndim() == 3;
  const bool tall = shape.dims[stack ? 1 : 0] > shape.last();
  const std::vector<int64_t> turned =
      stack ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{1, 0};
  if (tall) x = b.transpose(x, turned);  // the products are of the smaller side
  x = x / max(sqrt(groups::sum_squares(b, u, x)), o.real("eps"));
  for (int64_t i = 0; i < o.integer("iterations"); ++i) {
    const Value gram = b.matmul(x, x, false, true);
    x = abc[0] * x + b.matmul(abc[1] * gram + abc[2] * b.matmul(gram, gram), x);
  }
  return tall ? b.transpose(x, turned) : x;
}

double scale_of(const Options& o, double rows, double columns) {
  if (o.text("scale") == "spectral") return std::sqrt(std::max(1.0, rows / columns));
  return o.text("scale") == "rms" ? 0.2 * std::sqrt(std::max(rows, columns)) : 1;
}

Value build_muon(Builder& b, const Options& o, const Update& u) {
  if (u.scope == PLAIT_SCOPE_ELEMENT) return build_adamw(b, o, u);
  const double keep = o.real("momentum");
  const Value mean = keep * b.state("momentum") + (1 - keep) * u.gradient;
  b.set_state("momentum", mean);
  const Value moving = o.flag("nesterov") ? (1 - keep) * u.gradient + keep * mean : mean;
  // Of a filter, what its outputs read is a row.
  const Shape shape = b.shape(u.parameter);
  const bool grouped = groups::of(u);
  const bool as_it_is = shape.ndim() == 2 || grouped;
  const int64_t rows = shape.dims[grouped ? 1 : 0], columns = shape.count(grouped ? 2 : 1);
  const Value step =
      orthogonalized(b, o, u, as_it_is ? moving : b.reshape(moving, {rows, columns}));
  const double scale = scale_of(o, static_cast<double>(rows), static_cast<double>(columns));
  return u.parameter * (1.0 - u.learning_rate * u.weight_decay) -
         (u.learning_rate * scale) * (as_it_is ? step : b.reshape(step, shape.dims));
}
}  // namespace

PLAIT_PLUGIN("optimizer-muon", "0.1.0", "Apache-2.0", "Muon, with AdamW for what is no matrix") {
  static const auto muon = optimizer<build_muon, scope_of>(
      "muon", "orthogonalised momentum of matrices, of experts each; AdamW for the rest", 1e-3, 0.1,
      kMuon);
  host.add(muon);
}

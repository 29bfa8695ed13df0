// An optimizer over whole tensors that breaks the contract in one way, which its option `fault`
// names. "none": gradient descent with states of all sorts, which are checkpointed and resharded.
// "fills": no fault of such an optimizer, which never sees the padding of uneven shards: it makes
// something else than 0 of zeros.
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr plait_option kOptions[] = {opt_text("fault", "\"none\"", "what it does wrong")};

uint32_t scope_of(const Options& o, const plait_parameter_info&) {
  return o.text("fault") == "scope" ? 7 : PLAIT_SCOPE_TENSOR;
}

// A state (C, R, 2) of a matrix (R, C), a scalar one, and one along no dimension.
Value build_good(const Builder& b, const Update& u) {
  const std::vector<int64_t> dims = b.shape(u.parameter).dims;
  const Value steps = b.tensor_state("steps", Shape({}), {}, 1);
  b.set_state("steps", steps + 1.0);
  if (dims.size() != 2) return u.parameter - u.learning_rate * u.gradient;
  const int32_t turned[] = {1, 0, -1}, none[] = {-1};
  const Value sum = b.tensor_state("sum", Shape({dims[1], dims[0], 2}), turned, 0.5);
  const Value g = b.reshape(b.transpose(u.gradient, {1, 0}), {dims[1], dims[0], 1});
  b.set_state("sum", 0.5 * sum + g);
  const Value seen = b.tensor_state("seen", Shape({3}), none);
  b.set_state("seen", seen + b.sum_squares(u.gradient));
  const Value mean = b.transpose(b.reshape(b.sum(sum, {2}, false), {dims[1], dims[0]}), {1, 0});
  return u.parameter - u.learning_rate * (u.gradient + 0.25 * mean + 0.01 * b.sum(seen) / steps);
}

Value build_faulty(Builder& b, const Options& o, const Update& u) {
  const std::string_view fault = o.text("fault");
  const Shape shape = b.shape(u.parameter);
  const int64_t rows = shape.dims[0];
  const auto along = [&](int64_t extent, std::initializer_list<int32_t> dims) {
    std::vector<int64_t> extents(dims.size(), extent);
    b.tensor_state("rows", Shape(extents), std::vector<int32_t>(dims));
  };
  if (fault == "extent") along(rows + 1, {0});
  if (fault == "dimension") along(rows, {5});
  if (fault == "below") along(rows, {-2});
  if (fault == "twice") along(rows, {0, 0});
  if (fault == "twice in the last") along(rows, {1, 1});
  if (fault == "negative") along(-1, {-1});
  if (fault == "other shape") {
    along(rows, {0});
    along(rows, {0, -1});
  }
  if (fault == "set_state") {
    along(rows, {0});
    b.set_state("rows", u.learning_rate);
  }
  if (fault == "unknown state") b.set_state("columns", u.learning_rate);
  if (fault == "fills") return u.parameter - u.learning_rate * (u.gradient + 1.0);
  if (fault == "result") return u.learning_rate;
  if (fault == "no result") return {u.parameter.b, 0};
  if (fault == "no value") return {u.parameter.b, 4000000};
  return build_good(b, u);
}
}  // namespace

PLAIT_PLUGIN("optimizer-faulty", "1.0.0", "Apache-2.0", "An optimizer that fails, for tests") {
  static const auto faulty =
      optimizer<build_faulty, scope_of>("faulty", "fails as it is told", 0.01, 0, kOptions);
  host.add(faulty);
}

// layer-shape: joining and slicing values. Axes count as in NumPy: 0 is the samples, -1 the last.
#include <plait/plugin.hpp>

#include <algorithm>

namespace {
using namespace plait;
using In = std::span<const Value>;

[[noreturn]] void refuse(const Builder& b, const char* layer, const std::string& text) {
  fail(PLAIT_ERR_CONFIG, std::string("[") + layer + "] layer '" + b.scope() + "': " + text);
}

Value build_add(Builder&, const Options&, In in) {
  Value sum = in[0];
  for (const Value& v : in.subspan(1)) sum = sum + v;
  return sum;
}

Value build_mul(Builder&, const Options&, In in) {
  Value product = in[0];
  for (const Value& v : in.subspan(1)) product = product * v;
  return product;
}

// The axis as a non-negative number. The samples' axis can't be joined or sliced: it belongs to the
// engine.
int64_t axis_of(const Builder& b, const Options& o, const char* layer, const Shape& shape) {
  const auto ndim = static_cast<int64_t>(shape.ndim());
  const int64_t given = o.integer("axis"), axis = given < 0 ? given + ndim : given;
  if (axis < 1 || axis >= ndim)
    refuse(b, layer,
           "axis is " + std::to_string(given) + " for an input of shape " + shape.text() +
               ", expected 1 to " + std::to_string(ndim - 1) +
               " or the same counted from the end (axis 0 is the samples); set at " +
               o.origin("axis"));
  return axis;
}

constexpr plait_option kConcat[] = {
    opt_int("axis", "-1", "the axis along which the inputs are joined")};
Value build_concat(Builder& b, const Options& o, In in) {
  const Shape first = b.shape(in[0]);
  const int64_t axis = axis_of(b, o, "concat", first);
  for (size_t i = 1; i < in.size(); ++i) {
    Shape other = b.shape(in[i]);
    if (other.ndim() == first.ndim()) other.dims[axis] = first.dims[axis];
    if (other.dims != first.dims)
      refuse(b, "concat",
             "input 1 has shape " + first.text() + " and input " + std::to_string(i + 1) + " " +
                 b.shape(in[i]).text() + ", expected the same but along axis " +
                 std::to_string(axis));
  }
  return in.size() == 1 ? in[0] : b.concat(in, axis);
}

constexpr plait_option kReshape[] = {at_least(
    opt_ints("shape", nullptr, "shape of one sample; one extent may be -1: inferred"), -1)};
Value build_reshape(Builder& b, const Options& o, In in) {
  const Shape from = b.shape(in[0]);
  const std::span<const int64_t> wanted = o.integers("shape");
  std::vector<int64_t> dims = {from.ndim() ? from.dims[0] : 1};
  int64_t product = 1, free = 0;
  for (const int64_t d : wanted) {
    dims.push_back(d);
    if (d == -1)
      ++free;
    else if (__builtin_mul_overflow(product, d, &product))
      product = -1, free = 2;
  }
  const int64_t have = from.count(1);
  const bool fits = free == 0 ? product == have : free == 1 && product > 0 && have % product == 0;
  if (!fits)
    refuse(b, "reshape",
           "a sample has " + std::to_string(have) + " values (shape " + from.text() +
               " with the samples), `shape` is " + Shape({wanted.begin(), wanted.end()}).text() +
               "; their products must be equal, and one extent may be -1; set at " +
               o.origin("shape"));
  if (free) *std::find(dims.begin() + 1, dims.end(), -1) = have / product;
  return b.reshape(in[0], dims);
}

constexpr plait_option kSlice[] = {
    opt_int("axis", "-1", "the axis to slice"),
    opt_int("start", "0", "first index to keep; negative counts from the end"),
    opt_int("stop", nullptr, "index after the last to keep; negative counts from the end"),
};
Value build_slice(Builder& b, const Options& o, In in) {
  const Shape shape = b.shape(in[0]);
  const int64_t axis = axis_of(b, o, "slice", shape), extent = shape.dims[axis];
  int64_t start = o.integer("start"), stop = o.integer("stop");
  if (start < 0) start += extent;
  if (stop < 0) stop += extent;
  if (start < 0 || stop > extent || start >= stop)
    refuse(b, "slice",
           "start " + std::to_string(o.integer("start")) + " and stop " +
               std::to_string(o.integer("stop")) + " select an empty or invalid range of axis " +
               std::to_string(axis) + " with extent " + std::to_string(extent) + " (shape " +
               shape.text() + "); set at " + o.origin("stop"));
  return b.op("slice", {in[0]}, {attr("axis", axis), attr("start", start), attr("stop", stop)});
}
}  // namespace

PLAIT_PLUGIN("layer-shape", "0.1.0", "Apache-2.0", "Joining, slicing and reshaping values") {
  static const auto add = layer<build_add>("add", "sum of the inputs", {}, 2, UINT32_MAX);
  static const auto mul = layer<build_mul>("mul", "product of the inputs", {}, 2, UINT32_MAX);
  static const auto concat = layer<build_concat>("concat", "concatenates the inputs along an axis",
                                                 kConcat, 1, UINT32_MAX);
  static const auto reshape =
      layer<build_reshape>("reshape", "changes the shape of each sample", kReshape);
  static const auto slice = layer<build_slice>("slice", "a range of indices along an axis", kSlice);
  host.add(add);
  host.add(mul);
  host.add(concat);
  host.add(reshape);
  host.add(slice);
}

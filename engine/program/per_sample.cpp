#include "engine/program/per_sample.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/op_registry.hpp"

namespace plait::program {

bool PerSampleContext::has_rows() const {
  return std::any_of(in.begin(), in.end(),
                     [](const PerSampleOperand& o) { return o.kind == Kind::kRows; });
}

Dims PerSampleContext::dims(size_t i) const {
  Dims all = dims_of(g.shape(in.at(i).value));
  if (is(i, Kind::kStack)) all.erase(all.begin());
  return all;
}

ValueId PerSampleContext::of_samples(size_t i) const {
  return g.apply1("gather", {in.at(i).value, index});
}

ValueId PerSampleContext::apply(std::vector<ValueId> operands) const {
  return g.apply1(name, std::move(operands), attrs);
}

namespace {

// How many axes a sample has in the result of an element-wise op.
size_t axes_of_sample(const PerSampleContext& c) {
  using Kind = PerSampleContext::Kind;
  const bool rows = c.has_rows();
  size_t most = 0;
  for (size_t i = 0; i < c.in.size(); ++i)
    if (c.is(i, Kind::kRows))
      most = std::max(most, c.ndim(i) - std::min<size_t>(1, c.ndim(i)));
    else if (c.is(i, Kind::kStack) || !rows)
      most = std::max(most, c.ndim(i));
  return most;
}

}  // namespace

// Shapes are aligned at the right, so a stack or its samples need axes of 1 behind the first.
PerSampleResult map_per_sample(PerSampleContext& c) {
  using Kind = PerSampleContext::Kind;
  const bool rows = c.has_rows();
  const size_t axes = axes_of_sample(c);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.in.size(); ++i) {
    if (c.is(i, Kind::kRows) && c.ndim(i) != axes + 1)
      return {.refused = "operand " + std::to_string(i) + " " + text(c.g.shape(c.in[i].value)) +
                         " has fewer axes than a parameter and one of samples"};
    ValueId v = c.in[i].value;
    if (c.is(i, Kind::kStack)) {
      if (rows) v = c.of_samples(i);
      Dims dims = c.dims(i);
      dims.insert(dims.begin(), axes - dims.size(), 1);
      dims.insert(dims.begin(), c.g.shape(v).dims[0]);
      v = reshaped(c.g, v, dims);
    }
    operands.push_back(v);
  }
  return {c.apply(std::move(operands)), !rows};
}

PerSampleResult along_axes_per_sample(PerSampleContext& c) {
  Attrs attrs = c.attrs;
  const auto ndim = static_cast<int64_t>(c.ndim(0));
  const auto outside = [&](int64_t axis) { return axis < 0 || axis >= ndim; };
  for (const char* key : {"axis", "axes", "perm"})
    if (const Attr* a = attrs.find(key)) {
      Attr moved = *a;
      if (key == std::string_view("axis")
              ? outside(moved.i)
              : std::any_of(moved.ints.begin(), moved.ints.end(), outside))
        return {.refused = "a parameter has " + std::to_string(ndim) + " axes, and `" + key +
                           "` names another"};
      ++moved.i;
      for (int64_t& axis : moved.ints) ++axis;
      if (key == std::string_view("perm")) moved.ints.insert(moved.ints.begin(), 0);
      attrs.set(std::move(moved));
    }
  return {c.g.apply1(c.name, {c.in[0].value}, std::move(attrs)), true};
}

PerSample::PerSample(Graph& g, ValueId index, std::function<bool(ValueId)> is_shared)
    : g_(g), index_(index), is_shared_(std::move(is_shared)) {}

ValueId PerSample::stand_for(const std::vector<ValueId>& all) {
  std::vector<ValueId> parts;
  for (const ValueId v : all) {
    Dims dims = dims_of(g_.shape(v));
    dims.insert(dims.begin(), 1);
    parts.push_back(reshaped(g_, v, dims));
  }
  return stand_for_stack(parts.size() == 1 ? parts[0] : g_.apply1("concat", parts));
}

// It has no memory and is read by no op.
ValueId PerSample::stand_for_stack(ValueId stack) {
  const plait_shape& s = g_.shape(stack);
  const ValueId v = g_.buffer(make_shape(s.dtype, Dims(s.dims + 1, s.dims + s.ndim)));
  stacks_[v] = stack;
  return v;
}

PerSampleOperand PerSample::operand(ValueId v) {
  using Kind = PerSampleOperand::Kind;
  if (const auto at = stacks_.find(v); at != stacks_.end()) return {at->second, Kind::kStack};
  // A number is none of the samples', such as the sum of their weights.
  return {v, g_.shape(v).ndim == 0 || is_shared_(v) ? Kind::kShared : Kind::kRows};
}

std::vector<ValueId> PerSample::apply(std::string_view name, std::vector<ValueId> in, Attrs attrs) {
  if (std::none_of(in.begin(), in.end(), [&](ValueId v) { return stands(v); }))
    return g_.apply(name, std::move(in), std::move(attrs));
  const OpDef& def = *g_.registry()->find(name);
  const std::string where = "[" + g_.scope + "] " + std::string(name) + ":";
  attrs = checked(def, std::move(attrs), where);
  std::vector<PerSampleOperand> operands;
  for (const ValueId v : in) operands.push_back(operand(v));
  const auto stack = std::find_if(operands.begin(), operands.end(), [](const PerSampleOperand& o) {
    return o.kind == PerSampleOperand::Kind::kStack;
  });
  PerSampleContext c{g_, name, operands, attrs, index_, g_.shape(stack->value).dims[0]};
  const PerSampleResult result =
      def.per_sample ? def.per_sample(c) : PerSampleResult{.refused = "it has no rule for them"};
  if (!result.value)
    fail(PLAIT_ERR_UNIMPLEMENTED,
         where + " cannot read parameters that differ from sample to sample: " + result.refused);
  return {result.is_stack ? stand_for_stack(result.value) : result.value};
}

}  // namespace plait::program

#include "kit/ops/reduce.hpp"

#include <algorithm>

namespace plait::kit {
namespace {

ReduceKind kind_of(const AttrReader& attrs) {
  const std::string kind = attrs.text("kind");
  return kind == "sum"   ? ReduceKind::sum
         : kind == "max" ? ReduceKind::max
                         : ReduceKind::sum_squares;
}

// Which axes are reduced; sets the dims of the output.
std::vector<bool> reduced_axes(const AttrReader& attrs, const plait_shape& x, Reduce& r) {
  const std::vector<int64_t> axes = attrs.ints("axes");
  const bool keep = attrs.flag("keep");
  std::vector<bool> reduced(x.ndim, false);
  size_t next = 0;
  for (uint32_t i = 0; i < x.ndim; ++i) {
    reduced[i] = next < axes.size() && axes[next] == int64_t{i};
    if (reduced[i]) ++next;
    if (!reduced[i] || keep) r.out.push_back(reduced[i] ? 1 : x.dims[i]);
  }
  need(next == axes.size(), "axes must be sorted, different and within the rank of " + text(x));
  return reduced;
}

}  // namespace

Reduce parse_reduce(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape& x = d.inputs[0];
  const AttrReader attrs(d, kReduceAttrs);
  Reduce r;
  r.kind = kind_of(attrs);
  const std::vector<bool> axis = reduced_axes(attrs, x, r);
  int64_t stride = 1;
  for (uint32_t i = x.ndim; i-- > 0;) {
    const bool reduced = axis[i];
    (reduced ? r.summed : r.kept) *= x.dims[i];
    if (x.dims[i] != 1) {
      if (!r.dims.empty() && r.reduced.back() == reduced)
        r.dims.back().extent *= x.dims[i];
      else {
        r.dims.push_back({x.dims[i], stride});
        r.reduced.push_back(reduced);
      }
    }
    stride *= x.dims[i];
  }
  std::reverse(r.dims.begin(), r.dims.end());
  std::reverse(r.reduced.begin(), r.reduced.end());
  if (has_outputs(d))
    need(elements(d.outputs[0]) == r.kept, "y has shape " + text(d.outputs[0]) + ", expected " +
                                               std::to_string(r.kept) + " elements");
  return r;
}

}  // namespace plait::kit

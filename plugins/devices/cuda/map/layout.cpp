#include "plugins/devices/cuda/map/layout.hpp"

#include "kit/shape.hpp"

namespace plait::cuda::map {
namespace {

// The step of x along each dim of y: 0 where x repeats.
Layout::Strides strides_over(const plait_shape& x, const plait_shape& y) {
  Layout::Strides s{};
  int64_t step = 1;
  for (uint32_t j = x.ndim; j-- > 0; step *= x.dims[j])
    s[y.ndim - x.ndim + j] = x.dims[j] == 1 ? 0 : step;
  return s;
}

}  // namespace

Layout make_layout(const plait_op_desc& d) {
  const plait_shape& y = d.outputs[0];
  std::vector<Layout::Strides> full;
  for (uint32_t i = 0; i < d.n_inputs; ++i) full.push_back(strides_over(d.inputs[i], y));
  Layout to;
  to.count = kit::elements(y);
  to.strides.resize(full.size());
  size_t used = 0;
  for (uint32_t j = 0; j < y.ndim; ++j) {
    if (y.dims[j] == 1) continue;
    bool joins = used > 0;
    for (size_t i = 0; joins && i < full.size(); ++i)
      joins = to.strides[i][used - 1] == full[i][j] * y.dims[j];
    if (!joins) to.dims[used++] = 1;
    to.dims[used - 1] *= y.dims[j];
    for (size_t i = 0; i < full.size(); ++i) to.strides[i][used - 1] = full[i][j];
  }
  if (used == 0) to.dims[used++] = 1;
  to.ndim = static_cast<int>(used);
  return to;
}

}  // namespace plait::cuda::map

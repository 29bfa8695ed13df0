#include "plugins/devices/cpu/map/layout.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "plugins/devices/cpu/map/expr.hpp"

namespace plait::cpu {
namespace {

std::string show(const MapTensor& t) {
  std::string text = "[";
  for (int d = 0; d < t.ndim; ++d) text += (d ? "," : "") + std::to_string(t.dims[d]);
  return text + "]";
}

bool same_dims(const MapTensor& a, const MapTensor& b) {
  return a.ndim == b.ndim && std::equal(a.dims, a.dims + a.ndim, b.dims);
}

int64_t checked_count(const MapTensor& t) {
  int64_t count = 1;
  bool empty = false;
  for (int d = 0; d < t.ndim; ++d) {
    if (t.dims[d] < 0) fail_map(PLAIT_ERR_INVALID, "negative extent in " + show(t));
    if (t.dims[d] == 0) {
      empty = true;
    } else if (count > std::numeric_limits<int64_t>::max() / 16 / t.dims[d]) {
      fail_map(PLAIT_ERR_INVALID, show(t) + " has more elements than memory can hold");
    } else {
      count *= t.dims[d];
    }
  }
  return empty ? 0 : count;
}

// Strides of `t` over the dims of `out`; 0 where t repeats.
Layout::Strides strides_over(const MapTensor& t, const MapTensor& out, const std::string& who) {
  Layout::Strides strides{};
  int64_t step = 1;
  bool fits = t.ndim <= out.ndim;
  for (int d = t.ndim - 1; fits && d >= 0; --d) {
    const int at = d + out.ndim - t.ndim;
    fits = t.dims[d] == out.dims[at] || t.dims[d] == 1;
    strides[at] = t.dims[d] == 1 ? 0 : step;
    step *= t.dims[d];
  }
  if (!fits)
    fail_map(PLAIT_ERR_INVALID,
             who + " of shape " + show(t) + " does not broadcast to the outputs' " + show(out));
  return strides;
}

}  // namespace

Layout make_layout(const MapDesc& desc) {
  const MapTensor& out = desc.outputs[0];
  Layout full;
  full.total = checked_count(out);
  for (size_t i = 0; i < desc.inputs.size(); ++i)
    full.strides.push_back(strides_over(desc.inputs[i], out, "input " + std::to_string(i)));
  for (size_t i = 0; i < desc.outputs.size(); ++i) {
    if (!same_dims(desc.outputs[i], out))
      fail_map(PLAIT_ERR_INVALID, "output " + std::to_string(i) + " has shape " +
                                      show(desc.outputs[i]) + ", output 0 has " + show(out));
    full.strides.push_back(strides_over(out, out, "output"));
  }

  Layout merged;
  merged.total = full.total;
  merged.ndim = 0;
  merged.strides.resize(full.strides.size());
  for (int d = 0; d < out.ndim; ++d) {
    if (out.dims[d] == 1) continue;
    const int last = merged.ndim - 1;
    bool joins = last >= 0;
    for (size_t o = 0; joins && o < full.strides.size(); ++o)
      joins = merged.strides[o][last] == full.strides[o][d] * out.dims[d];
    const int at = joins ? last : merged.ndim++;
    merged.dims[at] = (joins ? merged.dims[at] : 1) * out.dims[d];
    for (size_t o = 0; o < full.strides.size(); ++o) merged.strides[o][at] = full.strides[o][d];
  }
  if (merged.ndim == 0) {
    merged.ndim = 1;
    merged.dims[0] = 1;
  }
  return merged;
}

int64_t Layout::row_offset(size_t o, int64_t r) const {
  int64_t offset = 0;
  for (int d = ndim - 2; d >= 0; --d) {
    offset += (r % dims[d]) * strides[o][d];
    r /= dims[d];
  }
  return offset;
}

int useful_threads(const Layout& layout, int threads) {
  constexpr int64_t kWorthAThread = 8192;
  const int64_t most = std::max<int64_t>(1, layout.total / kWorthAThread);
  return static_cast<int>(std::clamp<int64_t>(threads, 1, most));
}

WorkRange split(int64_t total, int64_t grain, int i, int n) {
  const int64_t grains = (total + grain - 1) / grain;
  const int64_t begin = grains * i / n, end = grains * (i + 1) / n;
  return {std::min(begin * grain, total), std::min(end * grain, total)};
}

}  // namespace plait::cpu

#include "engine/program/shape.hpp"

#include "engine/base/checked.hpp"
#include "engine/base/error.hpp"

namespace plait::program {

uint64_t dtype_bytes(uint32_t dtype) {
  const uint64_t n = kit::dtype_bytes(dtype);
  if (n == 0) fail_invalid("[shape] unknown element type " + std::to_string(dtype));
  return n;
}

uint32_t accumulation_dtype(uint32_t dtype) {
  return dtype == PLAIT_F64 ? static_cast<uint32_t>(PLAIT_F64) : static_cast<uint32_t>(PLAIT_F32);
}

uint64_t bytes_of(int64_t n, uint32_t dtype) {
  if (n < 0) fail_invalid("[shape] " + std::to_string(n) + " elements");
  return checked_mul<uint64_t>(static_cast<uint64_t>(n), dtype_bytes(dtype), "[shape] bytes");
}

plait_shape make_shape(uint32_t dtype, const Dims& dims) {
  dtype_bytes(dtype);
  if (dims.size() > PLAIT_MAX_NDIM)
    fail_invalid("[shape] " + std::to_string(dims.size()) + " dimensions, at most 8 are supported");
  plait_shape s{dtype, static_cast<uint32_t>(dims.size()), {}};
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) fail_invalid("[shape] negative extent " + std::to_string(dims[i]));
    s.dims[i] = dims[i];
  }
  bytes(s);  // refuses sizes that overflow
  return s;
}

Dims dims_of(const plait_shape& s) { return Dims(s.dims, s.dims + s.ndim); }

int64_t elements(const plait_shape& s) {
  int64_t n = 1;
  for (uint32_t i = 0; i < s.ndim; ++i) n = checked_mul<int64_t>(n, s.dims[i], "[shape] elements");
  return n;
}

uint64_t bytes(const plait_shape& s) { return bytes_of(elements(s), s.dtype); }

Dims broadcast(const plait_shape& a, const plait_shape& b, const std::string& where) {
  const uint32_t ndim = a.ndim > b.ndim ? a.ndim : b.ndim;
  Dims out(ndim);
  for (uint32_t i = 0; i < ndim; ++i) {
    const int64_t da = i + a.ndim >= ndim ? a.dims[i + a.ndim - ndim] : 1;
    const int64_t db = i + b.ndim >= ndim ? b.dims[i + b.ndim - ndim] : 1;
    if (da != db && da != 1 && db != 1)
      fail_invalid(where + " shapes " + text(a) + " and " + text(b) +
                   " do not broadcast: extents " + std::to_string(da) + " and " +
                   std::to_string(db) + " differ and neither is 1");
    out[i] = da == 1 ? db : da;
  }
  return out;
}

}  // namespace plait::program

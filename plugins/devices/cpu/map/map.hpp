// Element-wise kernels of the CPU device: a plait_map expression over broadcast inputs, prepared
// once and run many times.
//
// Three kernels compute the same thing: "jit_avx512" and "jit_avx2" generate code for the
// expression, "interpreter" walks it over cache-sized tiles on any machine and is the check of the
// other two. They agree within a few ulp, not bit for bit; each alone gives the same bits for any
// number of threads and any alignment.
//
// Arithmetic is f32, and f64 (interpreter only) as soon as an operand is f64 or i64. Stores to
// integers truncate toward zero and saturate, NaN becomes 0; a store to bool keeps `value != 0`.
#pragma once

#include <plait/map.h>
#include <plait/tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace plait::cpu {

// Element type and row-major extents of one operand. Inputs repeat along extents of 1, aligned
// right.
struct MapTensor {
  uint32_t dtype = PLAIT_F32;
  int ndim = 0;
  int64_t dims[PLAIT_MAX_NDIM] = {};
};

// What to compute. All outputs have the same dims. Borrowed for the call only.
struct MapDesc {
  const plait_map* map = nullptr;
  std::span<const MapTensor> inputs, outputs;
  int threads = 1;  // at most this many; small maps use one
};

// A prepared expression. Immutable: run() may be called from several threads at once on disjoint
// data.
class MapKernel {
 public:
  virtual ~MapKernel();
  // `operands` has n_inputs then n_outputs pointers, any alignment that suits the element type. An
  // output may have the very address of an input of the same type and shape. `workspace` has
  // workspace_bytes() bytes, aligned to 64, and is not shared with a concurrent run; null when 0.
  // Neither allocates, locks nor throws.
  virtual void run(void* const* operands, void* workspace) const = 0;
  virtual std::string_view name() const = 0;
  virtual size_t workspace_bytes() const = 0;
};

struct MapChoice {
  std::string kernel;
  std::string why;  // why no faster kernel was taken, or why this one was
  size_t workspace_bytes = 0;
};

// The kernel make_map(desc) would take. Pure and cheap. Throws plait::Error (PLAIT_ERR_INVALID)
// like make_map.
MapChoice choose_map(const MapDesc& desc);

// Prepares `desc` with the best kernel, or with the named one. Throws plait::Error:
// PLAIT_ERR_INVALID for a malformed expression or shapes that don't broadcast,
// PLAIT_ERR_UNIMPLEMENTED when the named kernel can't do it here.
std::unique_ptr<MapKernel> make_map(const MapDesc& desc);
std::unique_ptr<MapKernel> make_map(const MapDesc& desc, std::string_view kernel);

}  // namespace plait::cpu

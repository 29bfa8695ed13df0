// Element-wise kernels of the CPU device: a plait_map expression over broadcast inputs, prepared
// once and run many times.
//
// Three kernels compute the same function: "jit_avx512" and "jit_avx2" generate code for the
// expression; "interpreter" evaluates it tile by tile on any machine and is the reference for the
// other two. They agree within a few ulp, not bit for bit; each of them gives the same bits for any
// number of threads and any alignment.
//
// The arithmetic is f32, or f64 (interpreter only) if any operand is f64 or i64. Stores to integers
// truncate toward zero and saturate, NaN becomes 0; a store to bool keeps `value != 0`.
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

// Element type and row-major extents of one operand. Inputs broadcast along extents of 1, aligned
// right.
struct MapTensor {
  uint32_t dtype = PLAIT_F32;
  int ndim = 0;
  int64_t dims[PLAIT_MAX_NDIM] = {};
};

// The map to compute. All outputs have the same dims. Borrowed only for the call.
struct MapDesc {
  const plait_map* map = nullptr;
  std::span<const MapTensor> inputs, outputs;
  int threads = 1;  // at most this many; small maps use one
};

// A prepared expression. Immutable: several threads may call run() at once on disjoint data.
class MapKernel {
 public:
  virtual ~MapKernel();
  // `operands` has n_inputs then n_outputs pointers, with any alignment that suits the element
  // type. An output may have the same address as an input of the same type and shape. `workspace`
  // has workspace_bytes() bytes, aligned to 64, and is not shared with a concurrent run; null if 0.
  // Neither function allocates, locks or throws.
  virtual void run(void* const* operands, void* workspace) const = 0;
  virtual std::string_view name() const = 0;
  virtual size_t workspace_bytes() const = 0;
};

struct MapChoice {
  std::string kernel;
  std::string why;  // why no faster kernel was chosen, or why this one was
  size_t workspace_bytes = 0;
};

// The kernel that make_map(desc) would choose. Pure and cheap. Throws plait::Error
// (PLAIT_ERR_INVALID) like make_map.
MapChoice choose_map(const MapDesc& desc);

// Prepares `desc` with the best kernel, or with the named one. Throws plait::Error:
// PLAIT_ERR_INVALID for a malformed expression or shapes that don't broadcast,
// PLAIT_ERR_UNIMPLEMENTED if the named kernel can't run it on this machine.
std::unique_ptr<MapKernel> make_map(const MapDesc& desc);
std::unique_ptr<MapKernel> make_map(const MapDesc& desc, std::string_view kernel);

}  // namespace plait::cpu

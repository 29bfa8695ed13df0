// The kernels of conversions.cu on one device.
#pragma once

#include <cstdint>

#include "plugins/comm/nccl/context.hpp"

namespace plait::comm_nccl {

// How a call travels: as it is, as f32 (sums of 16-bit floats), or as integers of the same order
// (maxima and minima of floats).
enum class Wire { as_is, f32, keys };

class Kernels {
 public:
  Kernels();  // where the context is current
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // The two functions of a call: before it and after it.
  struct Pair {
    CUfunction before = nullptr, after = nullptr;
  };
  Pair conversions(Wire wire, uint32_t dtype, uint32_t reduction) const;
  static void convert(CUfunction f, const void* from, void* to, uint64_t n, CUstream stream);
  // Raises a count when the stream comes there.
  void count(uint32_t* at, CUstream stream) const;

 private:
  CUfunction function(const std::string& name) const;
  CUmodule module_ = nullptr;
  CUfunction count_ = nullptr;
};

}  // namespace plait::comm_nccl

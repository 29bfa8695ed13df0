#include "plugins/comm/nccl/kernels.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <string_view>

#include "kit/dtype.hpp"
#include "plugins/comm/nccl/conversions_args.hpp"

namespace plait::cuda {
// Written by the build.
const void* embedded_module(std::string_view name);
}  // namespace plait::cuda

namespace plait::comm_nccl {
namespace {

constexpr unsigned kThreads = 256;
constexpr uint64_t kMostBlocks = 1024;  // every thread walks in steps of the grid

template <class Args>
void launch(CUfunction f, unsigned blocks, unsigned threads, Args args, CUstream stream) {
  void* parameters[] = {&args};
  check(driver().cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr),
        "launching a kernel of a collective");
}

}  // namespace

Kernels::Kernels() {
  check(driver().cuModuleLoadData(&module_, cuda::embedded_module("conversions")),
        "loading the kernels of collectives");
  try {
    count_ = function("nccl_count");
  } catch (...) {
    driver().cuModuleUnload(module_);
    throw;
  }
}

Kernels::~Kernels() { driver().cuModuleUnload(module_); }

// A function is loaded when it is first launched, which a capture does not allow: so it is loaded
// here.
CUfunction Kernels::function(const std::string& name) const {
  CUfunction f = nullptr;
  check(driver().cuModuleGetFunction(&f, module_, name.c_str()), "finding the kernel " + name);
  check(driver().cuFuncLoad(f), "loading the kernel " + name);
  return f;
}

Kernels::Pair Kernels::conversions(Wire wire, uint32_t dtype, uint32_t reduction) const {
  const std::string type = kit::dtype_name(dtype);
  if (wire == Wire::as_is) return {};
  if (wire == Wire::f32) return {function("nccl_widen_" + type), function("nccl_narrow_" + type)};
  return {function((reduction == PLAIT_COMM_MAX ? "nccl_max_keys_" : "nccl_min_keys_") + type),
          function("nccl_values_" + type)};
}

void Kernels::convert(CUfunction f, const void* from, void* to, uint64_t n, CUstream stream) {
  const auto blocks = static_cast<unsigned>(std::min((n + kThreads - 1) / kThreads, kMostBlocks));
  launch(f, blocks, kThreads, ConversionArgs{from, to, static_cast<int64_t>(n)}, stream);
}

void Kernels::count(uint32_t* at, CUstream stream) const {
  launch(count_, 1, 1, CountArgs{at}, stream);
}

}  // namespace plait::comm_nccl

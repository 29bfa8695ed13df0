// One emulated GPU with a stream and some memory, called as the plugin calls it.
#pragma once

#include <cuda.h>
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda_emulator/interface.hpp"
#include "tests/cuda_emulator/test_args.hpp"

namespace cuda_emulator {

class Gpu {
 public:
  static constexpr int64_t kBytes = 16376;  // 8 short of a multiple of 256

  explicit Gpu(const char* fail = nullptr) {
    emulator_configure(fail, 1);
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    CUcontext context = nullptr;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    REQUIRE(cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc(&memory_, kBytes) == CUDA_SUCCESS);
    REQUIRE(cuModuleLoadData(&module_, "image") == CUDA_SUCCESS);
  }
  ~Gpu() {
    cuModuleUnload(module_);
    cuMemFree(memory_);
    cuStreamDestroy(stream_);
    cuDevicePrimaryCtxRelease(0);
    CHECK(std::string(emulator_live()) == "");
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  CUstream stream() const { return stream_; }
  CUdeviceptr memory() const { return memory_; }
  CUfunction function(const char* name) const {
    CUfunction f = nullptr;
    REQUIRE(cuModuleGetFunction(&f, module_, name) == CUDA_SUCCESS);
    return f;
  }
  CUresult launch(const char* name, unsigned blocks, unsigned threads, int64_t n,
                  unsigned shared = 0) const {
    TestArgs args{reinterpret_cast<int64_t*>(memory_), n};
    void* arguments[] = {&args};
    return cuLaunchKernel(function(name), blocks, 1, 1, threads, 1, 1, shared, stream_, arguments,
                          nullptr);
  }
  void fill(unsigned char v) const {
    REQUIRE(cuMemsetD8Async(memory_, v, kBytes, stream_) == CUDA_SUCCESS);
  }
  std::vector<int64_t> read(size_t n) const {
    std::vector<int64_t> out(n);
    REQUIRE(cuMemcpyDtoHAsync(out.data(), memory_, n * 8, stream_) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(stream_) == CUDA_SUCCESS);
    return out;
  }

 private:
  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;
  CUmodule module_ = nullptr;
};

}  // namespace cuda_emulator

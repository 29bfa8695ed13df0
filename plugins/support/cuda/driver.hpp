// The CUDA driver, libcuda.so.1, opened when it is first needed: the plugin links no library of
// CUDA, so it loads on machines without a driver and can say what is missing.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>

namespace plait::cuda {

// Every entry point that the plugin calls. cuda.h renames some by macros (cuMemAlloc is
// cuMemAlloc_v2); the names below are renamed with them, here and wherever they are used.
#define PLAIT_CUDA_DRIVER(X)           \
  X(cuInit)                            \
  X(cuDriverGetVersion)                \
  X(cuGetErrorName)                    \
  X(cuGetErrorString)                  \
  X(cuDeviceGetCount)                  \
  X(cuDeviceGet)                       \
  X(cuDeviceGetName)                   \
  X(cuDeviceGetAttribute)              \
  X(cuDeviceGetUuid)                   \
  X(cuDeviceTotalMem)                  \
  X(cuDevicePrimaryCtxRetain)          \
  X(cuDevicePrimaryCtxRelease)         \
  X(cuCtxSetCurrent)                   \
  X(cuCtxGetCurrent)                   \
  X(cuMemAlloc)                        \
  X(cuMemFree)                         \
  X(cuMemHostAlloc)                    \
  X(cuMemFreeHost)                     \
  X(cuMemGetInfo)                      \
  X(cuPointerGetAttribute)             \
  X(cuMemsetD8Async)                   \
  X(cuMemcpyHtoDAsync)                 \
  X(cuMemcpyDtoHAsync)                 \
  X(cuMemcpyDtoDAsync)                 \
  X(cuStreamCreateWithPriority)        \
  X(cuStreamDestroy)                   \
  X(cuStreamSynchronize)               \
  X(cuStreamWaitEvent)                 \
  X(cuStreamBeginCapture)              \
  X(cuStreamEndCapture)                \
  X(cuThreadExchangeStreamCaptureMode) \
  X(cuEventCreate)                     \
  X(cuEventDestroy)                    \
  X(cuEventRecord)                     \
  X(cuEventQuery)                      \
  X(cuGraphGetNodes)                   \
  X(cuGraphInstantiate)                \
  X(cuGraphUpload)                     \
  X(cuGraphLaunch)                     \
  X(cuGraphDestroy)                    \
  X(cuGraphExecDestroy)                \
  X(cuModuleLoadData)                  \
  X(cuModuleUnload)                    \
  X(cuModuleGetFunction)               \
  X(cuFuncLoad)                        \
  X(cuFuncGetAttribute)                \
  X(cuFuncSetAttribute)                \
  X(cuLaunchKernel)

struct Driver {
#define PLAIT_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  PLAIT_CUDA_DRIVER(PLAIT_CUDA_MEMBER)
#undef PLAIT_CUDA_MEMBER
  int version = 0;  // as cuDriverGetVersion() gives it: 13000 is CUDA 13.0
};

// The opened and initialised driver; the same object each time. Any thread. No lock once it is
// open. Errors: PLAIT_ERR_DEVICE with the reason and the remedy; later calls repeat it.
const Driver& driver();
// Where to look first for libraries, a list of folders separated by colons; set before the first
// call of driver().
void set_library_path(const std::string& folders);

// After fork() CUDA does not work in the new process. Whether this is one, made after the driver
// was opened; the other throws PLAIT_ERR_STATE then.
bool forked() noexcept;
void require_own_process();
// Throws PLAIT_ERR_DEVICE unless the driver serves the version of CUDA of the headers that the
// plugin was compiled with: older ones refuse its code.
void require_new_driver();

// Throws PLAIT_ERR_DEVICE, or PLAIT_ERR_MEMORY when memory is short, unless r is CUDA_SUCCESS.
// doing: "allocating 4096 bytes".
void check(CUresult r, std::string_view doing);
// "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)".
std::string error_text(CUresult r);
// "13.0" of 13000.
std::string version_text(int version);

}  // namespace plait::cuda

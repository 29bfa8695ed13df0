// Devices and their primary contexts.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_emulator/driver.hpp"

using namespace emulator;

namespace {

constexpr size_t kMemory = size_t{8} << 30;
constexpr size_t kNodeBytes = 1024;  // of a node of an instantiated graph

bool is_device(CUdevice device) { return device >= 0 && device < driver().gpus; }

// As an H100 says it, as far as somebody may ask.
constexpr std::pair<CUdevice_attribute, int> kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 52428800},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0},  // from the environment, or 9
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
};

// The number that an environment variable asks for.
int number_of(const char* variable, int otherwise) {
  const char* set = std::getenv(variable);
  return set ? std::atoi(set) : otherwise;
}

}  // namespace

CUresult cuInit(unsigned flags) {
  ENTER(cuInit, kNothing);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (driver().gpus == 0) return CUDA_ERROR_NO_DEVICE;
  driver().initialised = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* out) {
  ENTER(cuDriverGetVersion, kNothing);
  *out = number_of("PLAIT_CUDA_EMULATOR_VERSION", CUDA_VERSION);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* out) {
  ENTER(cuDeviceGetCount, kDriver);
  *out = driver().gpus;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* out, int ordinal) {
  ENTER(cuDeviceGet, kDriver);
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *out = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* out, int size, CUdevice device) {
  ENTER(cuDeviceGetName, kDriver);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const char* name = std::getenv("PLAIT_CUDA_EMULATOR_NAME");
  std::snprintf(out, static_cast<size_t>(size), "%s", name ? name : "Emulated GPU");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* out, CUdevice device) {
  ENTER(cuDeviceGetUuid, kDriver);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(out, 0xe0 + device, sizeof *out);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* out, CUdevice device) {
  ENTER(cuDeviceTotalMem, kDriver);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = kMemory;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* out, CUdevice_attribute attribute, CUdevice device) {
  ENTER(cuDeviceGetAttribute, kDriver);
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const int architecture = number_of("PLAIT_CUDA_EMULATOR_ARCHITECTURE", 90);
  for (const auto& [which, value] : kAttributes)
    if (which == attribute) {
      *out = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? architecture / 10
             : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? architecture % 10
                                                                     : value;
      return CUDA_SUCCESS;
    }
  return say(CUDA_ERROR_INVALID_VALUE,
             "cuDeviceGetAttribute() of " + std::to_string(attribute) +
                 ", which the emulator does not know; add it to its table");
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  ENTER(cuDevicePrimaryCtxRetain, kDriver);
  Driver& d = driver();
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (d.failed != CUDA_SUCCESS) return d.failed;
  while (d.contexts.size() <= static_cast<size_t>(device))
    d.contexts.push_back(
        std::make_unique<CUctx_st>(CUctx_st{static_cast<CUdevice>(d.contexts.size())}));
  *out = d.contexts[static_cast<size_t>(device)].get();
  ++(*out)->retained;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  ENTER(cuDevicePrimaryCtxRelease, kDriver | kFrees);
  auto& contexts = driver().contexts;
  if (device < 0 || static_cast<size_t>(device) >= contexts.size())
    return CUDA_ERROR_INVALID_DEVICE;
  CUctx_st& c = *contexts[static_cast<size_t>(device)];
  if (c.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --c.retained;
  return call.result();
}

CUresult cuCtxSetCurrent(CUcontext context) {
  ENTER(cuCtxSetCurrent, kDriver);
  if (context && context->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  current_context = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  ENTER(cuCtxGetCurrent, kDriver);
  *out = current_context;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  ENTER(cuCtxSynchronize, kContext);
  for (CUstream s : driver().streams)
    if (s->capture) return invalidate(s->capture, "cuCtxSynchronize");
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  ENTER(cuMemGetInfo, kContext);
  *total = kMemory;
  *free = kMemory - driver().used;
  for (const CUgraphExec graph : driver().executables) *free -= kNodeBytes * graph->nodes->size();
  return CUDA_SUCCESS;
}

// The real NVRTC asks for a table of functions that NVIDIA does not document: a table without any.
CUresult cuGetExportTable(const void** out, const CUuuid*) {
  static const size_t bytes = sizeof bytes;
  *out = &bytes;
  return CUDA_SUCCESS;
}

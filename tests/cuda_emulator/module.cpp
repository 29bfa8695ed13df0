// Modules, functions and launches.
#include <cstring>

#include "tests/cuda_emulator/driver.hpp"

using namespace emulator;

bool emulator_add_kernel(const char* name, uint64_t bytes, unsigned most_threads,
                         EmulatorThunk thunk) {
  Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  auto& kernels = d.loading ? d.loading->kernels : d.kernels;
  if (!kernels.emplace(name, Kernel{name, bytes, most_threads, thunk}).second) {
    std::fprintf(stderr, "[cuda emulator] two kernels are called %s; rename one\n", name);
    std::abort();
  }
  return true;
}

void emulator_set_static_shared(const char* name, unsigned bytes) {
  Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  d.kernels.at(name).static_shared = bytes;
}

void emulator_set_loader(int (*load)(const char*)) {
  const std::lock_guard lock(driver().mutex);
  driver().loader = load;
}

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  ENTER(cuModuleLoadData, kContext | kNoCapture);
  Driver& d = driver();
  auto module = std::make_unique<CUmod_st>();
  module->context = current_context;
  const auto* text = static_cast<const char*>(image);
  if (std::strncmp(text, "// plait", 8) == 0) {
    if (!d.loader)
      return say(CUDA_ERROR_INVALID_IMAGE, "an image that is source text, and no loader for it");
    d.loading = module.get();
    const int r = d.loader(text);
    d.loading = nullptr;
    if (r != 0) return static_cast<CUresult>(r);
  }
  *out = module.release();
  d.modules.insert(*out);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  ENTER(cuModuleUnload, kContext | kNoCapture | kFrees);
  if (driver().modules.erase(module) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete module;
  return call.result();
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  ENTER(cuModuleGetFunction, kContext);
  Driver& d = driver();
  if (!d.modules.contains(module)) return CUDA_ERROR_INVALID_HANDLE;
  const Kernel* kernel = nullptr;
  if (const auto own = module->kernels.find(name); own != module->kernels.end())
    kernel = &own->second;
  else if (const auto of_all = d.kernels.find(name); of_all != d.kernels.end())
    kernel = &of_all->second;
  if (!kernel) return say(CUDA_ERROR_NOT_FOUND, std::string("no kernel is called ") + name);
  auto& function = module->functions[name];
  if (!function) {
    function = std::make_unique<CUfunc_st>(CUfunc_st{module, kernel});
    function->dynamic_shared -= kernel->static_shared;
  }
  *out = function.get();
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
  ENTER(cuFuncLoad, kContext | kNoCapture);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  function->loaded = true;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* out, CUfunction_attribute attribute, CUfunction function) {
  ENTER(cuFuncGetAttribute, kContext);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *out = static_cast<int>(function->kernel->most_threads);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *out = static_cast<int>(function->dynamic_shared);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *out = static_cast<int>(function->kernel->static_shared);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *out = 32;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *out = 90;
      return CUDA_SUCCESS;
    default:  // local memory and others: unknown here
      *out = 0;
      return CUDA_SUCCESS;
  }
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  ENTER(cuFuncSetAttribute, kContext);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
  const int most = 232448 - static_cast<int>(function->kernel->static_shared);
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > most)
    return say(CUDA_ERROR_INVALID_VALUE, "cuFuncSetAttribute() of kernel " +
                                             function->kernel->name + ": " + std::to_string(value) +
                                             " bytes of shared memory; at most " +
                                             std::to_string(most) + " are there");
  function->dynamic_shared = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}

namespace {

// Why the function can't be launched like this, "" if it can.
std::string refusal(const CUfunc_st& f, const dim3& blocks, const dim3& threads, unsigned shared) {
  const uint64_t n = uint64_t{threads.x} * threads.y * threads.z;
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || n == 0) return "no blocks or no threads";
  if (blocks.x > 2147483647u || blocks.y > 65535 || blocks.z > 65535)
    return "a grid of (" + std::to_string(blocks.x) + ", " + std::to_string(blocks.y) + ", " +
           std::to_string(blocks.z) + ") blocks; at most (2147483647, 65535, 65535) are possible";
  if (n > f.kernel->most_threads || n > 1024 || threads.z > 64)
    return std::to_string(n) + " threads a block; it was compiled for at most " +
           std::to_string(f.kernel->most_threads);
  if (shared > f.dynamic_shared)
    return std::to_string(shared) + " bytes of dynamic shared memory; at most " +
           std::to_string(f.dynamic_shared) + " were asked for with cuFuncSetAttribute()";
  return "";
}

CUresult launch(const Kernel* kernel, const void* arguments, const dim3& blocks,
                const dim3& threads, unsigned shared) {
  const std::string fault = run_blocks({kernel, arguments, blocks, threads, shared});
  if (!fault.empty()) return fail_for_good(CUDA_ERROR_LAUNCH_FAILED, fault);
  if (const std::string damage = damaged_guard(); !damage.empty())
    return fail_for_good(CUDA_ERROR_ILLEGAL_ADDRESS, "kernel " + kernel->name + ": " + damage);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned blocks_x, unsigned blocks_y,
                        unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                        unsigned threads_z, unsigned shared, CUstream stream, void** arguments,
                        void** extra) {
  ENTER(cuLaunchKernel, kContext);
  if (!function || !is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (function->module->context != (stream ? stream->context : current_context))
    return say(CUDA_ERROR_INVALID_HANDLE, "launch of kernel " + function->kernel->name +
                                              ": loaded in another context than the stream's");
  const dim3 blocks(blocks_x, blocks_y, blocks_z), threads(threads_x, threads_y, threads_z);
  const Kernel* const kernel = function->kernel;
  if (const std::string why = refusal(*function, blocks, threads, shared); !why.empty())
    return say(CUDA_ERROR_INVALID_VALUE, "launch of kernel " + kernel->name + ": " + why);
  if (extra || !arguments || !arguments[0])
    return say(CUDA_ERROR_INVALID_VALUE,
               "launch of kernel " + kernel->name + ": expected one argument, by kernelParams");
  if (!stream || !stream->capture) {
    function->loaded = true;
    return launch(kernel, arguments[0], blocks, threads, shared);
  }
  if (!function->loaded) {
    say(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "kernel " + kernel->name +
            " is loaded at its first launch, in a capture; call cuFuncLoad() before");
    stream->capture->valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const auto* bytes = static_cast<const char*>(arguments[0]);
  // Arguments as the GPU aligns them.
  std::shared_ptr<char> copy(
      static_cast<char*>(std::aligned_alloc(64, (kernel->bytes + 63) / 64 * 64)), std::free);
  std::memcpy(copy.get(), bytes, kernel->bytes);
  return submit(stream, [=] { return launch(kernel, copy.get(), blocks, threads, shared); });
}

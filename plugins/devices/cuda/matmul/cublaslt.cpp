#include "plugins/devices/cuda/matmul/cublaslt.hpp"

#include <plait/plugin.hpp>

#include <mutex>

#include "plugins/support/cuda/libraries.hpp"

namespace plait::cuda {
namespace {

std::mutex mutex;
const CublasLt* opened = nullptr;  // for ever; written under `mutex`

CublasLt open_cublaslt(const std::string& folders) {
  const std::string soname = library_name("libcublasLt");
  const std::string wanted = "cuBLAS of CUDA " + std::to_string(major_version());
  const Search found = Search::of(soname.c_str(), folders);
  if (!found.library)
    fail(PLAIT_ERR_DEVICE, "[cuda] products of matrices need " + soname +
                               ", which was not found (tried " + found.tried + "); install " +
                               wanted + " (pip install " + package_name("nvidia-cublas") +
                               "), or name its folder in device.libraries or PLAIT_CUDA_LIBRARIES");
  CublasLt lt;
#define PLAIT_CUBLASLT_LOAD(name)                                              \
  lt.name = reinterpret_cast<decltype(lt.name)>(found.library.symbol(#name));  \
  if (!lt.name)                                                                \
    fail(PLAIT_ERR_DEVICE, "[cuda] " + found.library.path() +                  \
                               " has no function " #name ", which " + wanted + \
                               " has; install a complete or newer one");
  PLAIT_CUBLASLT(PLAIT_CUBLASLT_LOAD)
#undef PLAIT_CUBLASLT_LOAD
  lt.version = lt.cublasLtGetVersion();
  return lt;
}

}  // namespace

const CublasLt& cublaslt(const std::string& folders) {
  const std::lock_guard lock(mutex);
  if (!opened) opened = new CublasLt(open_cublaslt(folders));
  return *opened;
}

std::string cublaslt_version_text(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void check(cublasStatus_t s, std::string_view doing) {
  if (s == CUBLAS_STATUS_SUCCESS) return;
  const bool memory = s == CUBLAS_STATUS_ALLOC_FAILED;
  const char* text = opened->cublasLtGetStatusString(s);
  fail(memory ? PLAIT_ERR_MEMORY : PLAIT_ERR_DEVICE,
       "[cuda] " + std::string(doing) + " failed: " + (text ? text : "unknown error") + " (" +
           std::to_string(static_cast<int>(s)) + ", cuBLASLt " +
           cublaslt_version_text(opened->version) + ")" +
           (memory ? "; use a smaller batch or model, or free the GPU of other programs" : ""));
}

CublasLtHandle::CublasLtHandle(const std::string& folders) : lt_(cublaslt(folders)) {
  check(driver().cuCtxGetCurrent(&context_), "asking for the context");
  check(lt_.cublasLtCreate(&handle_),
        "opening cuBLASLt " + cublaslt_version_text(lt_.version) + " on the GPU");
}

CublasLtHandle::~CublasLtHandle() { lt_.cublasLtDestroy(handle_); }

}  // namespace plait::cuda

// cuBLASLt, opened when the first product of matrices is prepared: half a
// gigabyte that a program without products, or a machine without a GPU, need not have.
#pragma once

#include <cublasLt.h>

#include <string>
#include <string_view>

#include "plugins/devices/cuda/device.hpp"

namespace plait::cuda {

// Every entry point that the plugin calls. The two with "internal" in their names are what the
// inline functions of the header call, which set up a descriptor in memory of ours.
#define PLAIT_CUBLASLT(X)                  \
  X(cublasLtCreate)                        \
  X(cublasLtDestroy)                       \
  X(cublasLtGetVersion)                    \
  X(cublasLtGetStatusString)               \
  X(cublasLtMatmulDescInit_internal)       \
  X(cublasLtMatmulDescSetAttribute)        \
  X(cublasLtMatrixLayoutInit_internal)     \
  X(cublasLtMatrixLayoutSetAttribute)      \
  X(cublasLtMatmulPreferenceInit_internal) \
  X(cublasLtMatmulPreferenceSetAttribute)  \
  X(cublasLtMatmulAlgoGetHeuristic)        \
  X(cublasLtMatmul)

struct CublasLt {
#define PLAIT_CUBLASLT_MEMBER(name) decltype(&::name) name = nullptr;
  PLAIT_CUBLASLT(PLAIT_CUBLASLT_MEMBER)
#undef PLAIT_CUBLASLT_MEMBER
  size_t version = 0;  // as cublasLtGetVersion() gives it: 130100 is 13.1.0
};

// The opened library; the same object each time. Any thread. folders: where to look for it first, a
// list separated by colons; only the first call that succeeds uses them.
// Errors: PLAIT_ERR_DEVICE with the places that were searched, and the remedy.
const CublasLt& cublaslt(const std::string& folders);
// "13.1.0" of 130100.
std::string cublaslt_version_text(size_t version);

// Throws PLAIT_ERR_MEMORY when memory is short, else PLAIT_ERR_DEVICE, unless s is success. doing:
// "opening cuBLASLt". Only after cublaslt() has returned.
void check(cublasStatus_t s, std::string_view doing);

// The handle of one device, for all of its products: device.shared<CublasLtHandle>().
class CublasLtHandle {
 public:
  explicit CublasLtHandle(Device& device) : CublasLtHandle(device.libraries()) {}
  // Of the device whose context is current.
  explicit CublasLtHandle(const std::string& folders);
  ~CublasLtHandle();
  CublasLtHandle(const CublasLtHandle&) = delete;
  CublasLtHandle& operator=(const CublasLtHandle&) = delete;
  const CublasLt& lt() const { return lt_; }
  cublasLtHandle_t get() const { return handle_; }
  CUcontext context() const { return context_; }

 private:
  const CublasLt& lt_;
  cublasLtHandle_t handle_ = nullptr;
  CUcontext context_ = nullptr;
};

}  // namespace plait::cuda

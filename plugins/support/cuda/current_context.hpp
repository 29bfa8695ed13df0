// The context of a thread: the host may use CUDA itself and finds its thread as it left it.
#pragma once

#include <cuda.h>

#include <new>

#include "plugins/support/cuda/driver.hpp"

namespace plait::cuda {

// Makes a context current on this thread, and afterwards the one that was. No call changes anything
// where the context is current already.
class CurrentContext {
 public:
  explicit CurrentContext(CUcontext context) {
    require_own_process();
    check(driver().cuCtxGetCurrent(&before_), "asking for the context");
    if (before_ == context) return;
    check(driver().cuCtxSetCurrent(context), "entering the context");
    changed_ = true;
  }
  // For functions that report no error.
  CurrentContext(CUcontext context, std::nothrow_t) noexcept {
    const bool known = driver().cuCtxGetCurrent(&before_) == CUDA_SUCCESS;
    if (known && before_ == context) return;
    changed_ = driver().cuCtxSetCurrent(context) == CUDA_SUCCESS && known;
  }
  // The context that was may have been destroyed: then the thread has none.
  ~CurrentContext() {
    if (changed_ && driver().cuCtxSetCurrent(before_) != CUDA_SUCCESS)
      driver().cuCtxSetCurrent(nullptr);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  CUcontext before_ = nullptr;
  bool changed_ = false;
};

}  // namespace plait::cuda

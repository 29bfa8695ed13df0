// The context on the thread that opened a device.
//
// The engine calls prepare() and release() of kernels itself, on that thread, and cuda.h promises
// the context to them. So it stays current there from open() to close(); with several open devices,
// that of the one which was opened last. All other functions leave every thread as they find it.
#pragma once

#include <cuda.h>

#include <thread>

namespace plait::cuda {

class OpeningThread {
 public:
  explicit OpeningThread(CUcontext context);
  // On the same thread: makes current the context of the device opened before, or the one that was
  // current before the first, unless the host has made another one current since.
  ~OpeningThread();
  OpeningThread(const OpeningThread&) = delete;
  OpeningThread& operator=(const OpeningThread&) = delete;

 private:
  const CUcontext context_;
  const std::thread::id thread_;
};

}  // namespace plait::cuda

#include "plugins/devices/cuda/opening_thread.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "plugins/support/cuda/driver.hpp"

namespace plait::cuda {
namespace {

// The contexts of one thread.
struct Contexts {
  CUcontext before = nullptr;   // current before the first device was opened
  std::vector<CUcontext> open;  // of the open devices, in the order in which they were opened
};

std::mutex mutex;

// Under `mutex`; for ever, since a device may be closed while the process ends.
std::map<std::thread::id, Contexts>& threads() {
  static auto* const all = new std::map<std::thread::id, Contexts>;
  return *all;
}

}  // namespace

OpeningThread::OpeningThread(CUcontext context)
    : context_(context), thread_(std::this_thread::get_id()) {
  CUcontext before = nullptr;
  check(driver().cuCtxGetCurrent(&before), "asking for the context");
  const std::lock_guard lock(mutex);
  Contexts& mine = threads()[thread_];
  if (mine.open.empty()) mine.before = before;
  mine.open.push_back(context);
  if (const CUresult r = driver().cuCtxSetCurrent(context); r != CUDA_SUCCESS) {
    mine.open.pop_back();
    check(r, "entering the context");
  }
}

OpeningThread::~OpeningThread() {
  const std::lock_guard lock(mutex);
  const auto mine = threads().find(thread_);
  auto& open = mine->second.open;
  const auto own = std::find(open.rbegin(), open.rend(), context_);
  open.erase(std::next(own).base());
  const CUcontext next = open.empty() ? mine->second.before : open.back();
  if (open.empty()) threads().erase(mine);
  CUcontext now = nullptr;
  if (std::this_thread::get_id() != thread_ || driver().cuCtxGetCurrent(&now) != CUDA_SUCCESS ||
      now != context_ || next == context_)
    return;
  if (driver().cuCtxSetCurrent(next) != CUDA_SUCCESS) driver().cuCtxSetCurrent(nullptr);
}

}  // namespace plait::cuda

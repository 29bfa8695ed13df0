#include "plugins/support/cuda/driver.hpp"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <plait/plugin.hpp>

#include "plugins/support/cuda/libraries.hpp"

namespace plait::cuda {
namespace {

std::mutex mutex;
std::string library_path;                    // under `mutex`
std::atomic<const Driver*> opened{nullptr};  // for ever: objects of it may outlive statics
std::atomic<bool> in_child{false};           // of a fork() since then

#define PLAIT_CUDA_TEXT_OF(name) #name
#define PLAIT_CUDA_TEXT(name) PLAIT_CUDA_TEXT_OF(name)  // after the macros of cuda.h

Driver open_driver() {
  const Search found = Search::of("libcuda.so.1", library_path);
  if (!found.library)
    fail(PLAIT_ERR_DEVICE, "[cuda] no NVIDIA driver: libcuda.so.1 not found (tried " + found.tried +
                               "); install the driver, or set run.device = \"cpu\"");
  Driver d;
#define PLAIT_CUDA_LOAD(name)                                                               \
  d.name = reinterpret_cast<decltype(d.name)>(found.library.symbol(PLAIT_CUDA_TEXT(name))); \
  if (!d.name)                                                                              \
    fail(PLAIT_ERR_DEVICE, "[cuda] " + found.library.path() +                                    \
                               " has no function " PLAIT_CUDA_TEXT(name) ", which CUDA 12.4 has; " \
                               "install a newer driver");
  PLAIT_CUDA_DRIVER(PLAIT_CUDA_LOAD)
#undef PLAIT_CUDA_LOAD
  if (const CUresult r = d.cuInit(0); r != CUDA_SUCCESS) {
    const char* why = nullptr;
    d.cuGetErrorString(r, &why);
    fail(PLAIT_ERR_DEVICE,
         "[cuda] the NVIDIA driver does not start: " + std::string(why ? why : "unknown error") +
             " (" + std::to_string(static_cast<int>(r)) +
             "); check with nvidia-smi, or set run.device = \"cpu\"");
  }
  d.cuDriverGetVersion(&d.version);
  return d;
}

}  // namespace

void set_library_path(const std::string& folders) {
  const std::lock_guard lock(mutex);
  library_path = folders;
}

const Driver& driver() {
  if (const Driver* d = opened.load(std::memory_order_acquire)) return *d;
  const std::lock_guard lock(mutex);
  if (!opened.load(std::memory_order_relaxed)) {
    opened.store(new Driver(open_driver()), std::memory_order_release);
    // Asking for the process each time would be a system call in every function of the device.
    pthread_atfork(nullptr, nullptr, [] { in_child.store(true, std::memory_order_relaxed); });
  }
  return *opened.load(std::memory_order_relaxed);
}

bool forked() noexcept { return in_child.load(std::memory_order_relaxed); }

void require_own_process() {
  if (forked())
    fail(PLAIT_ERR_STATE,
         "[cuda] this process was forked from one that had opened CUDA, which cannot be used here; "
         "start a new program instead (fork before the first plan or session)");
}

void require_new_driver() {
  constexpr int kOwn = CUDA_VERSION / 1000;
  if (driver().version / 1000 >= kOwn) return;
  fail(PLAIT_ERR_DEVICE, "[cuda] the driver serves CUDA " + version_text(driver().version) +
                             ", this plugin is of CUDA " + std::to_string(kOwn) + "; install " +
                             (kOwn == 12   ? "driver 550 or newer"
                              : kOwn == 13 ? "driver 580 or newer"
                                           : "a newer driver") +
                             ", or set run.device = \"cpu\"");
}

std::string error_text(CUresult r) {
  const char *name = nullptr, *text = nullptr;
  driver().cuGetErrorName(r, &name);
  driver().cuGetErrorString(r, &text);
  return std::string(text ? text : "unknown error") + " (" +
         (name ? name : std::to_string(static_cast<int>(r)).c_str()) + ")";
}

void check(CUresult r, std::string_view doing) {
  if (r == CUDA_SUCCESS) return;
  const bool memory = r == CUDA_ERROR_OUT_OF_MEMORY;
  fail(memory ? PLAIT_ERR_MEMORY : PLAIT_ERR_DEVICE,
       "[cuda] " + std::string(doing) + " failed: " + error_text(r) +
           (memory ? "; use a smaller batch or model, or free the GPU of other programs" : ""));
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace plait::cuda

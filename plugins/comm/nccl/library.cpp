#include "plugins/comm/nccl/library.hpp"

#include <stdlib.h>

#include <iterator>
#include <mutex>
#include <plait/plugin.hpp>

#include "plugins/support/cuda/libraries.hpp"

namespace plait::comm_nccl {
namespace {

constexpr int kOldest = 21800;

const char* const kInstall =
    "install it (Debian: libnccl2; PyPI: nvidia-nccl-cu13, whose folder nvidia/nccl/lib "
    "comm.libraries "
    "or PLAIT_CUDA_LIBRARIES then names), or set topology.backend = \"shm\" (by way of host "
    "memory)";

Library open_library(const std::string& folders) {
  const cuda::Search found = cuda::Search::of("libnccl.so.2", folders);
  if (!found.library)
    fail(PLAIT_ERR_IO, "[nccl] NCCL is not installed: libnccl.so.2 not found (tried " +
                           found.tried + "); " + kInstall);
  Library nccl;
  nccl.path = found.library.path();
#define PLAIT_NCCL_LOAD(name)                                                                 \
  nccl.name = reinterpret_cast<decltype(nccl.name)>(found.library.symbol(#name));             \
  if (!nccl.name)                                                                             \
    fail(PLAIT_ERR_IO, "[nccl] " + nccl.path + " has no function " #name ", expected NCCL " + \
                           version_text(kOldest) + " or newer; " + kInstall);
  PLAIT_NCCL(PLAIT_NCCL_LOAD)
#undef PLAIT_NCCL_LOAD
  if (const ncclResult_t r = nccl.ncclGetVersion(&nccl.version); r != ncclSuccess)
    fail(PLAIT_ERR_IO,
         "[nccl] asking " + nccl.path + " for its version failed: " + result_text(nccl, r));
  if (nccl.version < kOldest)
    fail(PLAIT_ERR_IO, "[nccl] " + nccl.path + " is NCCL " + version_text(nccl.version) +
                           ", expected " + version_text(kOldest) + " or newer; " + kInstall);
  return nccl;
}

// Whether the variable now has this value because of us.
bool set_unless_given(const char* name, const char* value, std::string& said) {
  if (getenv(name)) return false;
  setenv(name, value, 0);
  said += (said.empty() ? "" : ", ") + std::string(name) + "=" + value;
  return true;
}

}  // namespace

const Library& library(const std::string& folders) {
  static std::mutex mutex;
  static const Library* opened = nullptr;  // for ever, as the library stays open
  const std::lock_guard lock(mutex);
  if (!opened) opened = new Library(open_library(folders));
  return *opened;
}

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string set_environment(const Environment& wanted) {
  static std::mutex mutex;
  static bool done = false;
  const std::lock_guard lock(mutex);
  if (std::exchange(done, true)) return "";
  std::string said;
  // Sums in the switch (NVLS) take the ranks in the order in which they come.
  if (!getenv("NCCL_ALGO")) set_unless_given("NCCL_NVLS_ENABLE", "0", said);
  // Connections are made when a group opens; later, memory would be allocated in a capture.
  set_unless_given("NCCL_RUNTIME_CONNECT", "0", said);
  if (!wanted.interface.empty())
    set_unless_given("NCCL_SOCKET_IFNAME", wanted.interface.c_str(), said);
  if (wanted.debug != "none") {
    set_unless_given("NCCL_DEBUG", wanted.debug.c_str(), said);
    set_unless_given("NCCL_DEBUG_FILE", "/dev/stderr", said);  // stdout is the host's
  }
  return said;
}

std::string result_text(const Library& nccl, ncclResult_t r) {
  constexpr const char* kNames[] = {
      "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
      "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError", "ncclInProgress"};
  const auto i = static_cast<size_t>(r);
  const char* text = nccl.ncclGetErrorString ? nccl.ncclGetErrorString(r) : nullptr;
  return std::string(text ? text : "unknown error") + " (" +
         (i < std::size(kNames) ? kNames[i] : std::to_string(i).c_str()) + ")";
}

uint32_t code_of(ncclResult_t r) {
  if (r == ncclRemoteError) return PLAIT_ERR_PEER;
  if (r == ncclSystemError) return PLAIT_ERR_IO;
  return r == ncclUnhandledCudaError ? PLAIT_ERR_DEVICE : PLAIT_ERR_INTERNAL;
}

}  // namespace plait::comm_nccl

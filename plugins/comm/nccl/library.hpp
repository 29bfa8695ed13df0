// NCCL, libnccl.so.2, opened when it is first needed: the plugin loads on machines without it and
// can say what is missing.
#pragma once

#include <nccl.h>

#include <string>

namespace plait::comm_nccl {

// Every entry point that the plugin calls.
#define PLAIT_NCCL(X)       \
  X(ncclGetVersion)         \
  X(ncclGetUniqueId)        \
  X(ncclGetErrorString)     \
  X(ncclGetLastError)       \
  X(ncclCommInitRankConfig) \
  X(ncclCommGetAsyncError)  \
  X(ncclCommFinalize)       \
  X(ncclCommDestroy)        \
  X(ncclCommAbort)          \
  X(ncclAllReduce)          \
  X(ncclReduceScatter)      \
  X(ncclAllGather)          \
  X(ncclBroadcast)          \
  X(ncclSend)               \
  X(ncclRecv)               \
  X(ncclGroupStart)         \
  X(ncclGroupEnd)

struct Library {
#define PLAIT_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  PLAIT_NCCL(PLAIT_NCCL_MEMBER)
#undef PLAIT_NCCL_MEMBER
  int version = 0;  // 22809 is 2.28.9
  std::string path;
};

// The opened library; the same object each time. folders: where the first call in the process looks
// first, separated by colons; later calls get the library that it found, whatever their folders.
// Errors: PLAIT_ERR_IO with what was tried and the remedy.
const Library& library(const std::string& folders);

// "2.28.9" of 22809.
std::string version_text(int version);

// What NCCL reads from the environment when the process first uses it.
struct Environment {
  std::string interface;  // "": NCCL chooses
  std::string debug;      // "none": nothing
};
// Sets that, the first time, and what makes sums repeatable; what the user has set stays as it is.
// Returns a line for the log, "" after the first time.
std::string set_environment(const Environment& wanted);

// "remote process exited or there was a network error (ncclRemoteError)".
std::string result_text(const Library& nccl, ncclResult_t r);
// The code of an error that a call of NCCL returned: a system that fails in it is this rank's.
uint32_t code_of(ncclResult_t r);

}  // namespace plait::comm_nccl

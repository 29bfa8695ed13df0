// NVRTC, the run-time compiler of CUDA, opened as a library.
#pragma once

#include <nvrtc.h>

#include <string>
#include <vector>

#include "plugins/support/cuda/libraries.hpp"

namespace plait::cuda::map {

struct Compiled {
  std::string image;  // a cubin, or PTX for an architecture that NVRTC does not know
  std::string log;
  // Why this NVRTC compiles nothing, "" if it does; there is no image then.
  std::string unusable;
};

class Compiler {
 public:
  // folders: as of Search::of(). Without the library, or with one that lacks an entry point, the
  // object is false and why() says what was tried, and what to do.
  explicit Compiler(const std::string& folders);
  explicit operator bool() const { return why_.empty(); }
  const std::string& why() const { return why_; }
  const std::string& path() const { return path_; }

  int version() const { return version_; }  // 13000 is 13.0
  // Changes with the library: its version, and the size and time of its file.
  const std::string& identity() const { return identity_; }
  // The --gpu-architecture for a compute capability (90 is 9.0): "sm_90", or the newest older one
  // whose code it runs: "sm_100" for 103 where 103 is not known, "compute_90" where 100 is not.
  std::string target(int architecture) const;
  // All options, in the order given to NVRTC.
  static std::vector<std::string> options(const std::string& target);
  // Any thread, several at a time.
  // Errors: PLAIT_ERR_INTERNAL with the compiler's messages.
  Compiled compile(const std::string& text, const std::vector<std::string>& options) const;

 private:
  void check(nvrtcResult r, const char* doing) const;

  SharedLibrary library_;
  std::string why_, path_, identity_, builtins_;
  int version_ = 0;
  std::vector<int> known_;
#define PLAIT_NVRTC(X)         \
  X(nvrtcVersion)              \
  X(nvrtcGetErrorString)       \
  X(nvrtcGetNumSupportedArchs) \
  X(nvrtcGetSupportedArchs)    \
  X(nvrtcCreateProgram)        \
  X(nvrtcDestroyProgram)       \
  X(nvrtcCompileProgram)       \
  X(nvrtcGetProgramLogSize)    \
  X(nvrtcGetProgramLog)        \
  X(nvrtcGetCUBINSize)         \
  X(nvrtcGetCUBIN)             \
  X(nvrtcGetPTXSize)           \
  X(nvrtcGetPTX)
#define PLAIT_NVRTC_MEMBER(name) decltype(&::name) name##_ = nullptr;
  PLAIT_NVRTC(PLAIT_NVRTC_MEMBER)
#undef PLAIT_NVRTC_MEMBER
};

}  // namespace plait::cuda::map

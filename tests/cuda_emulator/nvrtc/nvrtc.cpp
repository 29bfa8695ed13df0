// libnvrtc for tests without a GPU: what it makes of a source is the source itself, which the
// emulated driver gives back to be compiled for the host when it loads the module.
//
// PLAIT_CUDA_EMULATOR_NVRTC: "none" answers as a library that does not work, "fails" compiles
// nothing, "builtins" lacks the library that it opens itself.
// PLAIT_CUDA_EMULATOR_NVRTC_MINOR: the minor version that it names.
#pragma GCC visibility push(default)
#include <nvrtc.h>
#pragma GCC visibility pop

#include <dlfcn.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/cuda_emulator/nvrtc/generated.hpp"

struct _nvrtcProgram {
  std::string text, log;
};

namespace {

bool asked(const char* fault) {
  const char* set = std::getenv("PLAIT_CUDA_EMULATOR_NVRTC");
  return set && std::strcmp(set, fault) == 0;
}

// Compiles the text unless an earlier call, of any process, has. The path of the library, "" after
// a message if the compiler refuses.
std::string library_of(const char* text) {
  char name[32];
  std::snprintf(name, sizeof name, "/%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text, std::strlen(text))));
  // A library of another command is another.
  const std::string command = EMULATED_NVRTC_COMMAND;
  char of_command[32];
  std::snprintf(of_command, sizeof of_command, "-%08x",
                static_cast<unsigned>(XXH3_64bits(command.data(), command.size())));
  const std::string base = std::string(EMULATED_NVRTC_FOLDER) + name + of_command;
  const std::string library = base + ".so";
  if (access(library.c_str(), F_OK) == 0) return library;
  const std::string mine = base + "." + std::to_string(getpid());
  std::ofstream(mine + ".cpp") << text;
  const std::string line = command + " -o " + mine + ".so " + mine + ".cpp " EMULATED_NVRTC_DRIVER;
  if (std::system(line.c_str()) != 0) {
    std::fprintf(stderr, "[nvrtc emulator] failed: %s\n", line.c_str());
    return "";
  }
  std::rename((mine + ".so").c_str(), library.c_str());
  std::remove((mine + ".cpp").c_str());
  return library;
}

int load(const char* image) {
  const std::string path = library_of(image);
  if (path.empty()) return CUDA_ERROR_INVALID_IMAGE;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto* kernel =
      library ? static_cast<const EmulatedKernel*>(dlsym(library, "emulated_kernel")) : nullptr;
  if (!kernel) {
    std::fprintf(stderr, "[nvrtc emulator] %s\n", dlerror());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  emulator_add_kernel(kernel->name, kernel->bytes, kernel->most_threads, kernel->thunk);
  return CUDA_SUCCESS;
}

const bool kLoaderIsSet = (emulator_set_loader(load), true);

}  // namespace

// No NVRTC has these versions: a file of the plugin's cache belongs to this one or to another.
nvrtcResult nvrtcVersion(int* major, int* minor) {
  if (asked("none") || !kLoaderIsSet) return NVRTC_ERROR_INTERNAL_ERROR;
  *major = CUDA_VERSION / 1000;
  const char* set = std::getenv("PLAIT_CUDA_EMULATOR_NVRTC_MINOR");
  *minor = set ? std::atoi(set) : 99;
  return NVRTC_SUCCESS;
}
const char* nvrtcGetErrorString(nvrtcResult r) {
  return r == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "an error of the emulated NVRTC";
}
nvrtcResult nvrtcGetNumSupportedArchs(int* n) {
  *n = 3;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* known) {
  known[0] = 80, known[1] = 90, known[2] = 100;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* out, const char* text, const char*, int headers,
                               const char* const*, const char* const*) {
  if (headers != 0 || std::strncmp(text, "// plait", 8) != 0) return NVRTC_ERROR_INVALID_INPUT;
  *out = new _nvrtcProgram{text, ""};
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n, const char* const* options) {
  program->log = "asked to fail";
  if (asked("builtins")) return NVRTC_ERROR_BUILTIN_OPERATION_FAILURE;
  if (asked("fails")) return NVRTC_ERROR_COMPILATION;
  program->log.clear();
  bool no_fma = false;
  for (int i = 0; i < n; ++i) no_fma |= std::strcmp(options[i], "--fmad=false") == 0;
  if (no_fma) return NVRTC_SUCCESS;
  program->log = "expected --fmad=false";
  return NVRTC_ERROR_INVALID_OPTION;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  *size = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  *size = program->text.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* image) {
  std::memcpy(image, program->text.c_str(), program->text.size() + 1);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* size) {
  return nvrtcGetCUBINSize(program, size);
}
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* image) { return nvrtcGetCUBIN(program, image); }

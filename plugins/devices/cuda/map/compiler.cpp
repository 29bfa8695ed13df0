#include "plugins/devices/cuda/map/compiler.hpp"

#include <sys/stat.h>

#include <plait/plugin.hpp>

#include <algorithm>
#include <memory>

namespace plait::cuda::map {
namespace {

// The size of a file and when it was changed, "" if unknown.
std::string state_of(const std::string& file) {
  struct stat s {};
  if (file.empty() || stat(file.c_str(), &s) != 0) return "";
  return std::to_string(s.st_size) + " bytes of " + std::to_string(s.st_mtim.tv_sec) + "." +
         std::to_string(s.st_mtim.tv_nsec);
}

constexpr const char* kDamaged = "; it is damaged or no NVRTC: install it anew";

}  // namespace

Compiler::Compiler(const std::string& folders) {
  const std::string soname = library_name("libnvrtc");
  const Search found = Search::of(soname.c_str(), folders);
  library_ = found.library;
  if (!library_) {
    why_ = soname + " not found (tried " + found.tried +
           "); install NVRTC (package cuda-nvrtc, or " + package_name("nvidia-cuda-nvrtc") +
           " of PyPI), or name its folder in device.libraries";
    return;
  }
  path_ = library_.path();
#define PLAIT_NVRTC_FIND(name)                                           \
  name##_ = reinterpret_cast<decltype(&::name)>(library_.symbol(#name)); \
  if (!name##_ && why_.empty()) why_ = path_ + " lacks the function " #name + kDamaged;
  PLAIT_NVRTC(PLAIT_NVRTC_FIND)
#undef PLAIT_NVRTC_FIND
  if (!why_.empty()) return;
  int major = 0, minor = 0, count = 0;
  bool answers = nvrtcVersion_(&major, &minor) == NVRTC_SUCCESS &&
                 nvrtcGetNumSupportedArchs_(&count) == NVRTC_SUCCESS && count > 0;
  if (answers) {
    version_ = major * 1000 + minor * 10;
    identity_ =
        "NVRTC " + std::to_string(major) + "." + std::to_string(minor) + ", " + state_of(path_);
    builtins_ = "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
    known_.resize(static_cast<size_t>(count));
    answers = nvrtcGetSupportedArchs_(known_.data()) == NVRTC_SUCCESS;
  }
  if (!answers) why_ = path_ + " does not name its version and architectures" + kDamaged;
}

std::string Compiler::target(int architecture) const {
  int same_major = 0, oldest = known_[0], below = 0;
  for (const int one : known_) {
    oldest = std::min(oldest, one);
    if (one > architecture) continue;
    below = std::max(below, one);
    if (one / 10 == architecture / 10) same_major = std::max(same_major, one);
  }
  if (same_major) return "sm_" + std::to_string(same_major);
  return "compute_" + std::to_string(below ? below : oldest);
}

std::vector<std::string> Compiler::options(const std::string& target) {
  return {"--gpu-architecture=" + target, "--std=c++17", "--fmad=false"};
}

void Compiler::check(nvrtcResult r, const char* doing) const {
  if (r != NVRTC_SUCCESS)
    fail(PLAIT_ERR_INTERNAL,
         std::string("[cuda] ") + doing + " with " + path_ + " failed: " + nvrtcGetErrorString_(r));
}

Compiled Compiler::compile(const std::string& text, const std::vector<std::string>& options) const {
  nvrtcProgram raw = nullptr;
  check(nvrtcCreateProgram_(&raw, text.c_str(), "map.cu", 0, nullptr, nullptr),
        "beginning to compile a map");
  const auto destroy = [this](nvrtcProgram p) { nvrtcDestroyProgram_(&p); };
  const std::unique_ptr<_nvrtcProgram, decltype(destroy)> program(raw, destroy);
  std::vector<const char*> list;
  for (const std::string& o : options) list.push_back(o.c_str());
  const nvrtcResult r = nvrtcCompileProgram_(raw, static_cast<int>(list.size()), list.data());
  Compiled to;
  size_t size = 0;
  check(nvrtcGetProgramLogSize_(raw, &size), "reading the compiler's messages");
  to.log.resize(size);
  check(nvrtcGetProgramLog_(raw, to.log.data()), "reading the compiler's messages");
  while (!to.log.empty() && to.log.back() == '\0') to.log.pop_back();
  if (r == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
    to.unusable = path_ + " cannot open " + builtins_ + ", which belongs beside it" +
                  (to.log.empty() ? "" : " (" + to.log + ")");
    return to;
  }
  if (r != NVRTC_SUCCESS)
    fail(PLAIT_ERR_INTERNAL,
         "[cuda] " + path_ + " does not compile the code of a map: " + nvrtcGetErrorString_(r) +
             "\n" + to.log + "\nplease report this with the source, which is logged at DEBUG");
  const bool ptx = options[0].find("compute_") != std::string::npos;
  check((ptx ? nvrtcGetPTXSize_ : nvrtcGetCUBINSize_)(raw, &size), "reading the compiled code");
  to.image.resize(size);
  check((ptx ? nvrtcGetPTX_ : nvrtcGetCUBIN_)(raw, to.image.data()), "reading the compiled code");
  return to;
}

}  // namespace plait::cuda::map

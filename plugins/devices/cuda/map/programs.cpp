#include "plugins/devices/cuda/map/programs.hpp"

namespace plait::cuda::map {

Programs::Programs(Device& device)
    : device_(device), compiler_(device.libraries()), cache_(device.cache()) {
  std::string why = compiler_.why();
  if (why.empty() && compiler_.version() / 1000 > driver().version / 1000)
    why = compiler_.path() + " is of CUDA " + version_text(compiler_.version()) +
          ", but the driver serves CUDA " + version_text(driver().version) +
          "; install a newer driver, or name the folder of an older NVRTC in device.libraries";
  if (!why.empty()) {
    interpret(why);
    return;
  }
  usable_ = true;
  options_ = Compiler::options(compiler_.target(device.architecture()));
  if (!cache_.why().empty() && !device.cache().empty())
    device.host().log(PLAIT_LOG_WARN, "[cuda] compiled kernels are not kept: " + cache_.why() +
                                          "; set device.cache to a folder of your own");
}

void Programs::interpret(const std::string& why) {
  usable_ = false;
  device_.host().log(PLAIT_LOG_WARN,
                     "[cuda] element-wise ops are interpreted, which is slow: " + why);
}

CUfunction Programs::function(const Source& source) {
  const std::lock_guard lock(mutex_);
  if (!usable_) return nullptr;
  if (const auto known = functions_.find(source.text); known != functions_.end())
    return known->second;
  const std::string code = image(source);
  if (code.empty()) return nullptr;
  const CUmodule module = device_.load(code.c_str(), "the compiled map " + source.name);
  return functions_[source.text] = device_.function(module, source.name);
}

std::string Programs::image(const Source& source) {
  std::string key = compiler_.identity();
  for (const std::string& option : options_) key += " " + option;
  key += "\n" + source.text;
  if (const auto kept = cache_.find(key)) return *kept;
  const Compiled made = compile(source);
  if (made.unusable.empty())
    cache_.keep(key, made.image);
  else
    interpret(made.unusable);
  return made.image;
}

Compiled Programs::compile(const Source& source) const {
  try {
    return compiler_.compile(source.text, options_);
  } catch (...) {
    device_.host().log(PLAIT_LOG_DEBUG,
                       "[cuda] the source of " + source.name + ":\n" + source.text);
    throw;
  }
}

}  // namespace plait::cuda::map

#include "plugins/devices/cuda/map/programs.hpp"

#include <memory>

namespace plait::cuda::map {
namespace {

constexpr unsigned kMostThreads = 8;

Kernel ready(CUfunction function) {
  std::promise<CUfunction> known;
  known.set_value(function);
  return known.get_future().share();
}

}  // namespace

Programs::Programs(Device& device)
    : device_(device),
      compiler_(device.libraries()),
      cache_(device.cache()),
      workers_(kMostThreads) {
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

Kernel Programs::kernel(const Source& source) {
  const std::lock_guard lock(mutex_);
  if (!usable_) return {};
  if (const auto known = kernels_.find(source.text); known != kernels_.end()) return known->second;
  std::string key = compiler_.identity();
  for (const std::string& option : options_) key += " " + option;
  key += "\n" + source.text;
  Kernel kernel;
  if (const auto kept = cache_.find(key))
    kernel = ready(load(source, *kept));
  else
    kernel = compiles_ ? compile_beside(source, key) : compile_first(source, key);
  if (kernel.valid()) kernels_.emplace(source.text, kernel);
  return kernel;
}

// At once: whether NVRTC is complete shows when it first compiles.
Kernel Programs::compile_first(const Source& source, const std::string& key) {
  const Compiled made = compile(source);
  if (!made.unusable.empty()) {
    interpret(made.unusable);
    return {};
  }
  compiles_ = true;
  cache_.keep(key, made.image);
  return ready(load(source, made.image));
}

Kernel Programs::compile_beside(const Source& source, const std::string& key) {
  auto task = std::make_shared<std::packaged_task<CUfunction()>>([this, source, key] {
    const Compiled made = compile(source);
    if (!made.unusable.empty()) fail(PLAIT_ERR_DEVICE, "[cuda] " + made.unusable);
    cache_.keep(key, made.image);
    return load(source, made.image);
  });
  workers_.push([task] { (*task)(); });
  return task->get_future().share();
}

CUfunction Programs::load(const Source& source, const std::string& image) {
  const CUmodule module = device_.load(image.c_str(), "the compiled map " + source.name);
  return device_.function(module, source.name);
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

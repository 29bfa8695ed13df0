#include "engine/plugin/library.hpp"

#include <dlfcn.h>

#include "engine/plugin/plugin_load_error.hpp"

namespace plait::plugin {

Library::Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_) return;
  const char* words = dlerror();
  throw PluginLoadError(
      path, std::string("the system cannot load it: ") + (words ? words : "no reason given"),
      "install what it needs; `ldd FILE` lists it");
}

Library::~Library() {
  if (!keep_) dlclose(handle_);
}

void* Library::symbol(const char* name) const { return dlsym(handle_, name); }

}  // namespace plait::plugin

#include "plugins/support/cuda/libraries.hpp"

#include <cuda.h>
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include <string_view>

namespace plait::cuda {
namespace {

const char kAnchor = 0;  // an address inside the plugin

std::string folder_of_plugin() {
  Dl_info info{};
  if (!dladdr(&kAnchor, &info) || !info.dli_fname) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

void append(std::vector<std::string>& out, std::string_view list) {
  while (!list.empty()) {
    const size_t colon = list.find(':');
    if (const std::string_view one = list.substr(0, colon); !one.empty()) out.emplace_back(one);
    list = colon == std::string_view::npos ? std::string_view() : list.substr(colon + 1);
  }
}

// What dlopen() says of a file that exists: a file that does not is named at the beginning of the
// message, with no folder when the system looked for it. "" if there is nothing to tell.
std::string reason(const std::string& file) {
  const char* said = dlerror();
  if (!said) return "";
  const bool of_folder = file.find('/') != std::string::npos;
  const bool missing =
      of_folder ? access(file.c_str(), F_OK) != 0 : std::string_view(said).starts_with(file + ":");
  const std::string told = missing ? "" : std::string(" (") + said + ")";
  dlerror();  // a second call frees the text, which would count as lost memory
  return told;
}

}  // namespace

int major_version() { return CUDA_VERSION / 1000; }

std::string library_name(const char* library) {
  return std::string(library) + ".so." + std::to_string(major_version());
}

std::string package_name(const char* package) {
  const int major = major_version();
  return package + (major < 13 ? "-cu" + std::to_string(major) : "");
}

void* SharedLibrary::symbol(const char* name) const {
  return handle_ ? dlsym(handle_, name) : nullptr;
}

std::string SharedLibrary::path() const {
  const link_map* map = nullptr;
  if (!handle_ || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || !map) return "";
  return map->l_name ? map->l_name : "";
}

Search Search::of(const char* soname, const std::string& folders) {
  std::vector<std::string> places;
  if (const char* listed = secure_getenv("PLAIT_CUDA_LIBRARIES")) append(places, listed);
  append(places, folders);
  append(places, folder_of_plugin());
  Search s;
  const auto attempt = [&](const std::string& file, const std::string& said) {
    s.tried += (s.tried.empty() ? "" : ", ") + said;
    s.library.handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (s.library) return true;
    s.tried += reason(file);
    return false;
  };
  for (const std::string& place : places) {
    const std::string file = place + "/" + soname;
    if (attempt(file, file)) return s;
  }
  attempt(soname, std::string(soname) + " of the system");
  return s;
}

}  // namespace plait::cuda

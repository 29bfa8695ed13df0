// Libraries of CUDA that are opened when they are needed: where they are searched for.
#pragma once

#include <string>
#include <vector>

namespace plait::cuda {

// The major version of the headers that the plugin was compiled with: its libraries are needed.
int major_version();
// "libnvrtc.so.13" of "libnvrtc".
std::string library_name(const char* library);
// The package of PyPI that has a library: "nvidia-cublas", or "nvidia-cublas-cu12", of that name.
std::string package_name(const char* package);

// An opened shared library; it stays open until the process ends, since these libraries start
// threads and register exit handlers.
class SharedLibrary {
 public:
  SharedLibrary() = default;
  explicit operator bool() const { return handle_ != nullptr; }
  // The address of a symbol, nullptr if the library has none of that name.
  void* symbol(const char* name) const;
  // The path of the file, "" if unknown.
  std::string path() const;

 private:
  friend struct Search;
  void* handle_ = nullptr;
};

// The result of a search: the library, or what was tried.
struct Search {
  SharedLibrary library;
  // "/opt/cuda/lib/libnvrtc.so.13, libnvrtc.so.13 of the system"; behind a file that is there but
  // cannot be opened the reason, in parentheses.
  std::string tried;
  // Looks for a file of this name in the folders of PLAIT_CUDA_LIBRARIES (a list separated by
  // colons, ignored in privileged programs), then in `folders`, then beside the plugin, then where
  // the system looks.
  static Search of(const char* soname, const std::string& folders);
};

}  // namespace plait::cuda

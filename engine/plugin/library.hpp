// A loaded shared library.
#pragma once

#include <string>

namespace plait::plugin {

// Unloads when destroyed, unless told to keep the library. Owner thread only.
class Library {
 public:
  // `path` is absolute. All symbols are bound immediately and stay private. Throws PluginLoadError
  // with the message of the system's loader.
  explicit Library(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void* symbol(const char* name) const;  // NULL if it exports no such name
  void keep() { keep_ = true; }

 private:
  void* handle_ = nullptr;
  bool keep_ = false;
};

}  // namespace plait::plugin

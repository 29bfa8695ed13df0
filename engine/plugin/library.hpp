// A loaded shared library.
#pragma once

#include <string>

namespace plait::plugin {

// Unloads when destroyed, unless told to keep. Owner thread only.
class Library {
 public:
  // `path` is absolute. All symbols are bound at once and stay private. Throws PluginLoadError with the system loader's words.
  explicit Library(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void* symbol(const char* name) const;  // NULL when it exports none of that name
  void keep() { keep_ = true; }

 private:
  void* handle_ = nullptr;
  bool keep_ = false;
};

}  // namespace plait::plugin

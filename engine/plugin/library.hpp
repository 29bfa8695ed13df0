// A loaded shared library.
#pragma once

#include <cstddef>
#include <span>
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
  // Whether the library in memory is that of this file: the same segments, and in those that hold
  // neither code nor variables, such as symbols, relocations, notes and constants, the same bytes.
  // Code is not compared, since debuggers write breakpoints into it.
  bool is_loaded_from(std::span<const std::byte> file) const;
  void keep() { keep_ = true; }

 private:
  void* handle_ = nullptr;
  bool keep_ = false;
};

}  // namespace plait::plugin

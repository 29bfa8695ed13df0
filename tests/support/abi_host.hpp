// Makes a test a plugin's host: errors, options, a plugin's file. It uses abi/ and no part of the
// engine.
#pragma once

#include <plait/plugin.h>

#include <map>
#include <string>

namespace abi_host {

// Errors: defined in abi_errors.cpp, or by a program that provides its own.
plait_error* error_new(uint32_t code, const char* text, uint64_t size, plait_error* cause);
uint32_t error_code(const plait_error* e);
const char* error_text(const plait_error* e);
void error_free(plait_error* e);
long live_errors();  // created and not yet freed, of all hosts: to find leaks

// A host's table with these errors; it logs nothing and has no extensions.
using Add = plait_error* (*)(const plait_host* host, const char* kind, const void* item);
plait_host table_of(Add add);

// Option values by name in TOML syntax.
using OptionValues = std::map<std::string, std::string>;

// The declared options with the given values; the others have their defaults.
struct Options {
  plait_options head;
  OptionValues values;
};
Options options_of(const plait_option* declared, uint32_t n, const OptionValues& given);

// A plugin, first loaded and then opened. Throws std::runtime_error if the file is no plugin.
class PluginFile {
 public:
  explicit PluginFile(const std::string& path);
  ~PluginFile();
  PluginFile(const PluginFile&) = delete;
  PluginFile& operator=(const PluginFile&) = delete;
  // The plugin passes its items to host->add.
  plait_error* open(const plait_host* host);

 private:
  const std::string path_;
  void* library_ = nullptr;
  const plait_plugin* table_ = nullptr;
  void* state_ = nullptr;
  bool open_ = false;
};

}  // namespace abi_host

// Reads a plugin's description of itself from the file without loading it. Works on files of any
// ELF machine and on damaged ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace plait::plugin {

struct Note {
  uint32_t abi = 0;
  std::string name, version;
  std::string sanitizer;  // "none", "address", "thread"
};

struct Inspection {
  std::string path;
  uint32_t bits = 0;  // 32 or 64
  bool big_endian = false;
  uint32_t machine = 0;      // ELF number
  std::string machine_name;  // "x86-64", "aarch64", "machine 243"
  bool shared = false;       // a shared library (ET_DYN)
  std::optional<Note> note;
  // defined dynamic symbols that other objects can bind to, sorted
  std::vector<std::string> exports;

  bool matches_this_machine() const;  // class, byte order and machine are as in this process
  std::string json() const;
};

// Errors: PLAIT_ERR_PLUGIN for a file that is damaged or not ELF; the text names the path, what was
// found and what to do.
Inspection inspect(std::span<const std::byte> file, const std::string& path);
Inspection inspect_file(const std::string& path);

// The machine of this process: "x86-64, 64 bit".
std::string own_machine();
// The sanitizer of this engine's build: "none", "address" or "thread".
const char* own_sanitizer();

}  // namespace plait::plugin

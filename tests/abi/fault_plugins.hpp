// The plugins of faults/, and a registry that loads them.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <string>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/plugin/registry.hpp"

namespace plait::test {

inline const std::string kFolder = FAULT_FOLDER;

inline std::string fault(const std::string& name) {
  return kFolder + "/plait-fault-" + name + ".so";
}
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Bench {
  std::string lines;
  Log log{[this](uint32_t level, std::string_view text) {
            lines += std::to_string(level) + " " + std::string(text) + "\n";
          },
          PLAIT_LOG_WARN};
  FileSystem& files = FileSystem::posix();
  plugin::Registry registry;
  explicit Bench(plugin::RegistrySettings settings = {})
      : registry(log, files, {}, std::move(settings)) {}
  // The message of load() for a file; "" if it was loaded.
  std::string refusal(const std::string& path) {
    try {
      registry.load(path);
    } catch (const Error& e) {
      return e.text();
    }
    return "";
  }
};

// A folder for damaged copies.
struct Scratch {
  FileSystem& files = FileSystem::posix();
  std::string folder;
  Scratch() {
    char name[] = "./plait-faults-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    folder = files.real_path(name);
  }
  ~Scratch() { files.remove_all(folder); }
  std::string copy(const std::string& from, const std::string& name) const {
    return put(name, files.read_all(from, 1 << 26));
  }
  std::string put(const std::string& name, const std::string& content) const {
    files.make_folders(folder_of(folder + "/" + name));
    files.replace(folder + "/" + name, content);
    chmod((folder + "/" + name).c_str(), 0644);
    return folder + "/" + name;
  }
};

}  // namespace plait::test

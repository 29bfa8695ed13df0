// A plugin's file, opened once: what is inspected, whose permissions are checked, and with what the
// loaded library is compared is one and the same file, whatever happens to its path meanwhile.
//
// The system's loader takes a path. It could be given the descriptor (/proc/self/fd/N), but then
// libraries beside the plugin are not found ($ORIGIN) and debuggers know no file. So the guarantee
// comes from permissions: each folder from / down to the file is one whose entries nobody but this
// user and root can replace. They are checked from the top, so that nobody else can have replaced
// what has been checked. This user and root can do what they like to this process in any case; if
// one of them replaces the file at that moment, as an installation does, the comparison finds it
// after the file's initialisers have run, and before any other of its code runs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "engine/base/posix_read.hpp"

namespace plait::plugin {

class PluginFile {
 public:
  // path: as asked for, for messages; links in it are resolved. Errors: PLAIT_ERR_NOT_FOUND,
  // PLAIT_ERR_PLUGIN for what is no regular file, PLAIT_ERR_IO, PLAIT_ERR_DATA above 4 GiB.
  explicit PluginFile(const std::string& path);
  ~PluginFile();
  PluginFile(const PluginFile&) = delete;
  PluginFile& operator=(const PluginFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& real_path() const { return real_path_; }  // absolute, without links
  // Throws PluginLoadError unless the file and every folder above it belong to this user or root
  // and nobody else may replace them. A folder that contains the engine's own library is only
  // refused if everybody may write it: who may replace the engine needs no plugin.
  void check_permissions() const;

 private:
  std::string path_, real_path_;
  std::optional<posix::Descriptor> file_;
  std::span<const std::byte> bytes_;
};

}  // namespace plait::plugin

// A folder that exists for one test.
#pragma once

#include <stdlib.h>

#include <string>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"

// For writers whose warnings a test does not read.
inline plait::Log& no_log() {
  static plait::Log none;
  return none;
}

class TempFolder {
 public:
  TempFolder() {
    const char* base = getenv("TMPDIR");
    path_ = std::string(base && *base ? base : "/tmp") + "/plait-test-XXXXXX";
    if (!mkdtemp(path_.data())) path_.clear();
  }
  ~TempFolder() {
    if (!path_.empty()) files().remove_all(path_);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  static plait::FileSystem& files() { return plait::FileSystem::posix(); }
  std::string read(const std::string& name) const {
    return files().read_all(*this / name, 1u << 24);
  }

 private:
  std::string path_;
};

// Generated sources compiled for the host and run there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/cuda_map/cases.hpp"

namespace cuda_map {

// A folder that is deleted with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Several sources in one library, since the compiler takes longer to start than to work. Throws
// std::runtime_error with the compiler's messages.
class HostCode {
 public:
  HostCode(const TemporaryFolder& folder, const std::string& name,
           const std::vector<Generated>& sources);
  ~HostCode();
  HostCode(const HostCode&) = delete;
  HostCode& operator=(const HostCode&) = delete;

  // The outputs of a case. shift: bytes by which all operands miss an alignment of 64.
  // aliases: output i has the memory of input aliases[i]; -1, or past the end: its own.
  std::vector<Bytes> run(const Generated& g, size_t shift = 0,
                         const std::vector<int32_t>& aliases = {}) const;

 private:
  void* library_ = nullptr;
};

}  // namespace cuda_map

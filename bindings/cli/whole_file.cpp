#include "bindings/cli/whole_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

bool write_to(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

// Beside the file, so that both are on one file system. The new file has the permissions of the
// old one.
bool replace(const fs::path& path, const std::string& text) {
  fs::path part = path;
  part += ".part-" + std::to_string(getpid());
  std::error_code none;
  if (write_to(part, text)) {
    if (const fs::file_status before = fs::status(path, none); fs::exists(before))
      fs::permissions(part, before.permissions(), none);
    if (std::rename(part.c_str(), path.c_str()) == 0) return true;
  }
  const int reason = errno;
  fs::remove(part, none);
  errno = reason;
  return false;
}

}  // namespace

void write_whole_file(const std::string& path, const std::string& text) {
  std::error_code none;
  const fs::path real =
      fs::is_symlink(path, none) ? fs::weakly_canonical(path, none) : fs::path(path);
  const fs::file_status now = fs::status(real, none);
  errno = 0;
  const bool direct = fs::exists(now) && !fs::is_regular_file(now);
  if (!(direct ? write_to(real, text) : replace(real, text)))
    throw CliError(kEnvironment, "[cli] cannot write '" + path + "': " + std::strerror(errno));
}

}  // namespace plait::cli

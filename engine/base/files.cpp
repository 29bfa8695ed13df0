// The parts of FileSystem that are built on its own virtual functions, and helpers for path
// strings.
#include "engine/base/files.hpp"

#include <unistd.h>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "kit/obstacle.hpp"

namespace plait {

void FileSystem::make_folders(const std::string& path) {
  if (path.empty() || is_folder(path)) return;
  const std::string parent = folder_of(path);
  if (parent != path) make_folders(parent);
  try {
    make_folder(path);
  } catch (const Error&) {
    if (!is_folder(path)) throw;  // another process may have created it first
  }
}

void FileSystem::remove_all(const std::string& path) {
  const bool link = is_link(path);
  if (!link && is_folder(path))
    for (const std::string& name : list(path)) remove_all(join_path(path, name));
  if (link || exists(path)) remove(path);
}

void FileSystem::replace(const std::string& path, std::string_view content, Sync sync) {
  // Beside the target, so that the rename stays within one file system.
  const std::string temporary = path + ".tmp-" + std::to_string(getpid());
  try {
    const auto file = open(temporary, OpenMode::kReplace);
    file->write(content);
    if (sync == Sync::kYes) file->sync();
    file->close();
    rename(temporary, path);
  } catch (...) {
    try {
      remove(temporary);
    } catch (const Error&) {
      // The first error is the one to report.
    }
    throw;
  }
  if (sync == Sync::kYes) sync_folder(folder_of(path));
}

void fail_truncated(const std::string& path, uint64_t at, uint64_t wanted, uint64_t size) {
  fail_data(
      strf("[files] '%s' ends at byte %llu, expected to read up to byte %llu; it had %llu bytes "
           "when it was opened: %s",
           path.c_str(), static_cast<unsigned long long>(at),
           static_cast<unsigned long long>(wanted), static_cast<unsigned long long>(size),
           wanted > size ? "the read extends past its end"
                         : "it was truncated meanwhile; copy it again"));
}

bool is_absolute(std::string_view path) { return !path.empty() && path.front() == '/'; }

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty() || is_absolute(name)) return std::string(name);
  std::string path(folder);
  if (path.back() != '/') path += '/';
  return path += name;
}

std::string folder_of(std::string_view path) { return kit::folder_of(path); }

std::string name_of(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos || path == "/" ? path
                                                                    : path.substr(slash + 1));
}

}  // namespace plait

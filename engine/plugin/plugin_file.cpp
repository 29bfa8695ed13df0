#include "engine/plugin/plugin_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/text.hpp"
#include "engine/plugin/plugin_load_error.hpp"
#include "engine/plugin/search.hpp"

namespace plait::plugin {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{4} << 30;

bool ours_or_roots(const struct stat& s) { return s.st_uid == 0 || s.st_uid == geteuid(); }

// Group write permission is harmless for the user's own group (a private group has the user's
// number).
bool others_may_write(const struct stat& s) {
  const bool private_group = s.st_gid == s.st_uid && s.st_gid == getegid();
  return (s.st_mode & 002) != 0 || ((s.st_mode & 020) != 0 && !private_group);
}

// As in /tmp: others who may write cannot replace our files. The folder's owner can.
bool is_sticky(const struct stat& s) { return (s.st_mode & S_ISVTX) != 0; }

std::string mode_text(const struct stat& s) {
  return strf("owner %u, mode %04o", s.st_uid, static_cast<unsigned>(s.st_mode & 07777));
}

// Of the path itself: on a path without links, a link has been put there since.
struct stat entry_at(const std::string& path) {
  struct stat s {};
  if (::lstat(path.c_str(), &s) != 0) fail_io("[files] cannot examine '" + path + "'", errno);
  return s;
}

bool contains(const std::string& folder, const std::string& path) {
  return folder == "/" || path == folder || path.starts_with(folder + "/");
}

// In a container that knows few users, the files of all others have one owner, among them the root
// folder. Where all users are known this is an owner like any other.
bool is_unknown_to_container(uid_t user) {
  uint64_t inside = 0, outside = 0, count = 0;
  std::ifstream map("/proc/self/uid_map");
  if (!(map >> inside >> outside >> count) || count >= UINT32_MAX) return false;
  uid_t unknown = 0;
  std::ifstream overflow("/proc/sys/kernel/overflowuid");
  return overflow >> unknown && user == unknown;
}

void check_own_folder(const std::string& path, const std::string& folder, const struct stat& s) {
  if (S_ISDIR(s.st_mode) && ours_or_roots(s) && (!others_may_write(s) || is_sticky(s))) return;
  throw PluginFolderError(
      path, "its folder", folder,
      "has " + mode_text(s) + ", expected one owned by you or root that nobody else may write",
      "run chmod go-w on the folder");
}

void check_folder_above(const std::string& path, const std::string& folder, const struct stat& s,
                        bool is_engines) {
  const auto refuse = [&](const char* expected, const char* fix) {
    throw PluginFolderError(path, "the folder '" + folder + "' above it", folder,
                            "has " + mode_text(s) + ", expected one " + expected, fix);
  };
  if (!S_ISDIR(s.st_mode) || ((s.st_mode & 002) != 0 && !is_sticky(s)))
    refuse("that not everybody may write", "run chmod o-w on that folder");
  if (is_engines) return;
  if (others_may_write(s) && !is_sticky(s))
    refuse("that no group of others may write", "run chmod g-w on that folder, or chmod +t");
  if (!ours_or_roots(s) && !is_unknown_to_container(s.st_uid)) refuse("owned by you or root", "");
}

}  // namespace

PluginFile::PluginFile(const std::string& path) : path_(path) {
  FileSystem& files = FileSystem::posix();
  const FileKind kind = files.info(path).kind;
  if (kind == FileKind::kNone)
    throw PluginLoadError(path, "there is no such file",
                          "check the path; plugins are files named plait-NAME.so",
                          PLAIT_ERR_NOT_FOUND);
  if (kind != FileKind::kRegular)
    throw PluginLoadError(
        path,
        kind == FileKind::kDirectory ? "found a folder, expected a file" : "found no regular file",
        "give the plugin's .so file");
  real_path_ = files.real_path(path);
  file_.emplace(real_path_, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, "open");
  const struct stat s = file_->status();
  const auto size = static_cast<uint64_t>(s.st_size);
  if (!S_ISREG(s.st_mode) || size > kMaxBytes)
    throw PluginLoadError(path, "found no regular file of at most " + human_bytes(kMaxBytes),
                          "give the plugin's .so file");
  if (size == 0) return;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file_->get(), 0);
  if (data == MAP_FAILED) posix::fail_path("map", path, errno);
  bytes_ = {static_cast<const std::byte*>(data), static_cast<size_t>(size)};
}

PluginFile::~PluginFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void PluginFile::check_permissions() const {
  const std::string own = folder_of(real_path_), engine = engine_folder();
  if (own != "/") check_folder_above(path_, "/", entry_at("/"), contains("/", engine));
  for (size_t end = 0; end < own.size();) {
    end = std::min(own.find('/', end + 1), own.size());
    const std::string folder = own.substr(0, std::max<size_t>(end, 1));
    if (folder != own)
      check_folder_above(path_, folder, entry_at(folder), contains(folder, engine));
  }
  check_own_folder(path_, own, entry_at(own));
  const struct stat file = file_->status();
  if (!ours_or_roots(file) || others_may_write(file))
    throw PluginLoadError(path_,
                          "found " + mode_text(file) +
                              ", expected a file owned by you or root that nobody else may write",
                          "run chmod go-w on it, or install it as its owner");
}

}  // namespace plait::plugin

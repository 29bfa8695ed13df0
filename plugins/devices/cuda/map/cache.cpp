#include "plugins/devices/cuda/map/cache.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "kit/fd.hpp"

namespace plait::cuda::map {
namespace {

// What a file begins with.
struct Header {
  char format[16];
  uint64_t key[2];  // XXH128 of the key
  uint64_t bytes;   // of the code, which follows
  uint64_t sum;     // XXH64 of the code
};
constexpr char kFormat[16] = "plait cubin 1\n";
constexpr const char* kUnfinished = "new-";          // a name before the file is whole
constexpr uint64_t kMostBytes = uint64_t{64} << 20;  // no map comes near: the file is damaged

Header header_of(const std::string& key, const std::string& code) {
  const XXH128_hash_t k = XXH3_128bits(key.data(), key.size());
  Header h{{}, {k.high64, k.low64}, code.size(), XXH3_64bits(code.data(), code.size())};
  std::memcpy(h.format, kFormat, sizeof kFormat);
  return h;
}

bool read_all(int fd, void* to, size_t n) {
  auto* at = static_cast<char*>(to);
  while (n > 0) {
    const ssize_t got = read(fd, at, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    n -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* from, size_t n) {
  const auto* at = static_cast<const char*>(from);
  while (n > 0) {
    const ssize_t put = write(fd, at, n);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    n -= static_cast<size_t>(put);
  }
  return true;
}

// The folder that "auto" stands for, "" if the environment names none.
std::string usual_folder() {
  const char* base = secure_getenv("XDG_CACHE_HOME");
  if (base && base[0] == '/') return std::string(base) + "/plait/cuda";
  const char* home = secure_getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/.cache/plait/cuda" : "";
}

// Makes the folder, its last part with mode 0700. Empty, or why it cannot be used.
std::string open_folder(const std::string& folder) {
  std::error_code e;
  const auto above = std::filesystem::path(folder).parent_path();
  if (!above.empty()) std::filesystem::create_directories(above, e);
  if (e) return "cannot make " + above.string() + ": " + e.message();
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return "cannot make " + folder + ": " + std::strerror(errno);
  const kit::Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat s {};
  if (!fd || fstat(fd.get(), &s) != 0) return "cannot open " + folder + ": " + std::strerror(errno);
  if (s.st_uid != geteuid()) return folder + " belongs to another user";
  if (s.st_mode & (S_IWGRP | S_IWOTH)) return "others can write to " + folder;
  return "";
}

// Files that a process began to write and left when it ended: nobody reads them.
void remove_unfinished(const std::string& folder) {
  constexpr time_t kDay = 24 * 60 * 60;  // far longer than any write
  std::error_code e;
  for (std::filesystem::directory_iterator at(folder, e), end; !e && at != end; at.increment(e)) {
    const std::string file = at->path();
    struct stat s {};
    if (at->path().filename().string().starts_with(kUnfinished) && lstat(file.c_str(), &s) == 0 &&
        S_ISREG(s.st_mode) && s.st_mtime < time(nullptr) - kDay)
      unlink(file.c_str());
  }
}

}  // namespace

Cache::Cache(const std::string& option) : folder_(option == "auto" ? usual_folder() : option) {
  while (folder_.size() > 1 && folder_.back() == '/') folder_.pop_back();
  if (option.empty())
    why_ = "device.cache is empty";
  else if (folder_.empty())
    why_ = "neither XDG_CACHE_HOME nor HOME is an absolute path";
  else
    why_ = open_folder(folder_);
  if (why_.empty()) remove_unfinished(folder_);
}

std::string Cache::path(const std::string& key) const {
  const XXH128_hash_t k = XXH3_128bits(key.data(), key.size());
  char name[48];
  std::snprintf(name, sizeof name, "/%016llx%016llx.cubin",
                static_cast<unsigned long long>(k.high64),
                static_cast<unsigned long long>(k.low64));
  return folder_ + name;
}

std::optional<std::string> Cache::find(const std::string& key) const {
  if (!why_.empty()) return std::nullopt;
  const std::string file = path(key);
  const kit::Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return std::nullopt;
  struct stat s {};
  Header h{};
  std::string code;
  bool sound = fstat(fd.get(), &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
               read_all(fd.get(), &h, sizeof h) && h.bytes <= kMostBytes &&
               static_cast<uint64_t>(s.st_size) == sizeof h + h.bytes;
  if (sound) {
    code.resize(h.bytes);
    const bool whole = read_all(fd.get(), code.data(), code.size());
    const Header wanted = header_of(key, code);
    sound = whole && std::memcmp(&h, &wanted, sizeof h) == 0;
  }
  if (sound) return code;
  unlink(file.c_str());
  return std::nullopt;
}

void Cache::keep(const std::string& key, const std::string& code) const {
  if (!why_.empty()) return;
  std::string name = folder_ + "/" + kUnfinished + "XXXXXX";
  const kit::Fd fd(mkostemp(name.data(), O_CLOEXEC));
  if (!fd) return;
  const Header h = header_of(key, code);
  const bool written = write_all(fd.get(), &h, sizeof h) &&
                       write_all(fd.get(), code.data(), code.size()) && fsync(fd.get()) == 0;
  if (!written || rename(name.c_str(), path(key).c_str()) != 0) unlink(name.c_str());
}

}  // namespace plait::cuda::map

// What is in the way of a file or folder that is to be made: one wording for the engine and the
// command line.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

namespace plait::kit {

// The folder that a path lies in; "." when it names none, "/" of the root.
inline std::string folder_of(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  path = path.substr(0, slash);
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path.empty() ? "/" : std::string(path);
}

namespace detail {

// A link that cannot be followed is there, too.
struct AtPath {
  struct stat status {};
  int number = 0;  // why it cannot be followed
  bool there = false;
  explicit AtPath(const std::string& path) {
    there = ::stat(path.c_str(), &status) == 0;
    if (there) return;
    number = errno;
    there = ::lstat(path.c_str(), &status) == 0;
  }
  bool is_link() const { return there && S_ISLNK(status.st_mode); }
  bool loops() const { return number == ELOOP; }
  // Where it leads to may also be there, behind a folder that is closed to this user.
  bool is_broken_link() const {
    return is_link() && (loops() || number == ENOENT || number == ENOTDIR);
  }
  bool is_refused() const { return is_link() && number == EACCES; }
};

// "is a link to 'runs/old', which is not there; remove the link, or name another place".
inline std::string broken_link(const std::string& path, const AtPath& at) {
  char target[1024];
  const ssize_t n = ::readlink(path.c_str(), target, sizeof target);
  return "is a link" +
         (at.loops() ? " that leads back to itself"
          : n <= 0
              ? " to what is not there"
              : " to '" + std::string(target, static_cast<size_t>(n)) + "', which is not there") +
         "; remove the link, or ";
}

}  // namespace detail

inline constexpr char kAnotherPlace[] = "name another place";

// number: the errno of the call that did not make `path`, whose folder had been made where it was
// missing and could be. Returns what is in the way and what to do, which ends with kAnotherPlace:
// "it is a file, not a folder; name another place"; "" if it is nothing of the place.
inline std::string obstacle(const std::string& path, int number) {
  const detail::AtPath at(path);
  const bool refused = number == EACCES || number == EPERM || at.is_refused();
  if (at.there && refused) return std::string("you may not write it; ") + kAnotherPlace;
  if (at.is_broken_link()) return "it " + detail::broken_link(path, at) + kAnotherPlace;
  // create_directories() of C++ says ENOTDIR of a file.
  if (at.there && (number == EEXIST || number == ENOTDIR) && S_ISREG(at.status.st_mode))
    return std::string("it is a file, not a folder; ") + kAnotherPlace;
  if (number == EROFS) return std::string("the disk is read-only; ") + kAnotherPlace;
  std::string above = folder_of(path);
  detail::AtPath over(above);
  while (!over.there && above != folder_of(above)) over = detail::AtPath(above = folder_of(above));
  const std::string name = "'" + above + "' ";
  if (over.is_broken_link()) return name + detail::broken_link(above, over) + kAnotherPlace;
  if (refused || over.is_refused()) return "you may not write in '" + above + "'; " + kAnotherPlace;
  if (!S_ISDIR(over.status.st_mode)) return name + "is a file, not a folder; " + kAnotherPlace;
  if (number != ENOENT) return "";
  return above == folder_of(path)
             ? name + "takes no new files; " + kAnotherPlace
             : "there is no folder '" + folder_of(path) + "'; make it, or " + kAnotherPlace;
}

}  // namespace plait::kit

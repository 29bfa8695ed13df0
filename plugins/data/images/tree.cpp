#include "plugins/data/images/tree.hpp"

#include <plait/plugin.hpp>

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "kit/utf8.hpp"

#include <xxhash.h>

namespace plait::data::images {
namespace {

constexpr size_t kMostFolders = 1'000'000;

std::string about(const std::string& path) { return "[data.images] path '" + path + "': "; }

[[noreturn]] void refuse(const std::string& path, const std::string& what,
                         uint32_t code = PLAIT_ERR_DATA) {
  fail(code, about(path) + what);
}

// Endings of images that other programs write.
constexpr const char* kOthers[] = {".bmp", ".gif", ".webp", ".tif",  ".tiff", ".ppm",
                                   ".pgm", ".pnm", ".avif", ".heic", ".jp2",  ".jxl"};

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t n = kit::utf8_length(text, i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

// The names in a folder, but for "." and "..".
std::vector<std::string> list(const std::string& path, bool is_root) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (!folder) {
    const int reason = errno;
    const char* remedy = !is_root ? "give this user the right to read it, or take it out"
                         : reason == ENOTDIR
                             ? "give a folder that has one folder of images for each class"
                             : "relative paths start at the data folder, else at the experiment "
                               "file";
    refuse(path, std::string("cannot list it: ") + std::strerror(reason) + "; " + remedy,
           reason == ENOENT ? PLAIT_ERR_NOT_FOUND : PLAIT_ERR_IO);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(folder.get()))
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      names.emplace_back(entry->d_name);
  if (errno) refuse(path, std::string("cannot list it: ") + std::strerror(errno), PLAIT_ERR_IO);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

// Lists the folders of a class, and finds what is wrong in them.
class Tree::Walk {
 public:
  struct File {
    std::string name;
    uint64_t size;
  };
  struct Folder {
    std::string path;  // below root
    std::vector<File> files;
  };

  Walk(Tree& tree, const std::vector<std::string>& extensions) : tree_(tree) {
    for (const std::string& one : extensions)
      endings_.push_back(lower(one.starts_with('.') ? one : "." + one));
  }

  bool is_image(const std::string& name) const {
    const std::string text = lower(name);
    return std::any_of(endings_.begin(), endings_.end(),
                       [&](const std::string& ending) { return text.ends_with(ending); });
  }
  std::string endings() const {
    std::string all;
    for (const std::string& one : endings_) all += (all.empty() ? "" : ", ") + one;
    return all;
  }
  std::string full(const std::string& path) const {
    return path.empty() ? tree_.root_ : tree_.root_ + "/" + path;
  }

  // What a link leads to; nullopt: nothing, and it is no image.
  std::optional<struct stat> status(const std::string& path, const std::string& name) const {
    struct stat s {};
    if (::stat(full(path).c_str(), &s) == 0) return s;
    if (errno == ENOENT && !is_image(name)) return std::nullopt;
    const bool is_loose = errno == ENOENT || errno == ELOOP;
    refuse(full(path),
           std::string("cannot get its size: ") + std::strerror(errno) +
               (is_loose ? "; if it is a link, it leads to nothing or to itself: delete it"
                         : "; give this user the right to read the folder"),
           is_loose ? PLAIT_ERR_DATA : PLAIT_ERR_IO);
  }

  // The folders of a class, in their order, with their images.
  std::vector<Folder> folders_of(const std::string& name, const struct stat& found) {
    folders_.clear();
    visit(name, found);
    std::sort(folders_.begin(), folders_.end(),
              [](const Folder& a, const Folder& b) { return a.path < b.path; });
    return std::move(folders_);
  }

 private:
  void visit(const std::string& path, const struct stat& s) {
    const auto same = [&](const struct stat& above) {
      return above.st_dev == s.st_dev && above.st_ino == s.st_ino;
    };
    if (std::any_of(above_.begin(), above_.end(), same))
      refuse(full(path), "is a link to a folder that it lies in, so there is no end; delete it");
    if (++n_folders_ > kMostFolders)
      refuse(full(path), "there are more than " + std::to_string(kMostFolders) +
                             " folders, by links that lead to the same ones; delete them");
    above_.push_back(s);
    Folder folder{path, {}};
    for (std::string& name : list(full(path), false)) {
      const std::string inner = path + "/" + name;
      const auto found = status(inner, name);
      if (!found) continue;
      if (S_ISDIR(found->st_mode))
        visit(inner, *found);
      else if (is_image(name))
        add(folder, inner, std::move(name), *found);
      else
        note(inner, lower(std::move(name)));
    }
    above_.pop_back();
    folders_.push_back(std::move(folder));
  }
  void add(Folder& folder, const std::string& path, std::string name, const struct stat& s) const {
    if (!S_ISREG(s.st_mode)) refuse(full(path), "is no file; delete it");
    if (s.st_size == 0)
      refuse(full(path), "the file is empty, expected an image; fetch the file again or delete it");
    folder.files.push_back({std::move(name), static_cast<uint64_t>(s.st_size)});
  }
  void note(const std::string& path, const std::string& name) {
    if (std::none_of(std::begin(kOthers), std::end(kOthers),
                     [&](const char* ending) { return name.ends_with(ending); }))
      return;
    if (tree_.other_images_++ == 0) tree_.other_image_ = full(path);
  }

  Tree& tree_;
  std::vector<std::string> endings_;
  std::vector<Folder> folders_;
  std::vector<struct stat> above_;
  size_t n_folders_ = 0;
};

Tree::Tree(std::string root, const std::vector<std::string>& extensions) : root_(std::move(root)) {
  while (root_.size() > 1 && root_.ends_with('/')) root_.pop_back();
  Walk walk(*this, extensions);
  begin_.push_back(0);
  const auto hash = [&](const void* p, size_t n) {
    fingerprint_ = XXH3_64bits_withSeed(p, n, fingerprint_);
  };
  int64_t loose = 0;
  for (const std::string& name : list(root_, true)) {
    const auto found = walk.status(name, name);
    if (!found || !S_ISDIR(found->st_mode)) {
      loose += walk.is_image(name);
      continue;
    }
    if (!is_utf8(name))
      refuse(root_ + "/" + name, "the name of the class is not UTF-8; rename the folder");
    classes_.push_back(name);
    first_.push_back(size());
    for (const Walk::Folder& folder : walk.folders_of(name, *found))
      for (const Walk::File& file : folder.files) {
        names_ += folder.path + "/" + file.name;
        begin_.push_back(names_.size());
        hash(&file.size, sizeof file.size);
      }
    if (size() == first_.back())
      refuse(root_ + "/" + name, "the class has no image (" + walk.endings() +
                                     "); delete the folder, or name the endings of its images in "
                                     "extensions");
  }
  if (classes_.empty())
    refuse(root_, "has no folders, expected one for each class, with its images in it" +
                      (loose ? "; there are " + std::to_string(loose) +
                                   " images in it itself: move them into folders of their classes"
                             : std::string("; check the path")));
  names_.shrink_to_fit();
  begin_.shrink_to_fit();
  hash(names_.data(), names_.size());
  hash(begin_.data(), begin_.size() * sizeof begin_[0]);
}

std::string Tree::path(int64_t image) const {
  const auto i = static_cast<size_t>(image);
  return root_ + "/" + names_.substr(begin_[i], begin_[i + 1] - begin_[i]);
}

int32_t Tree::label(int64_t image) const {
  return static_cast<int32_t>(std::upper_bound(first_.begin(), first_.end(), image) -
                              first_.begin() - 1);
}

uint64_t Tree::host_bytes() const {
  uint64_t bytes = names_.capacity() + begin_.capacity() * sizeof begin_[0] +
                   first_.capacity() * sizeof first_[0];
  for (const std::string& one : classes_) bytes += sizeof(std::string) + one.size();
  return bytes;
}

}  // namespace plait::data::images

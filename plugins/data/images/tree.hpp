// The images of a folder with one folder for each class, numbered as torchvision's ImageFolder
// numbers them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait::data::images {

// Classes are the folders in `root`, sorted by the bytes of their names. The images of a class are
// the files with one of the endings (in capitals or not) in its folder and the folders below:
// folders sorted by their paths, files by their names. Links are followed.
class Tree {
 public:
  // Errors: PLAIT_ERR_NOT_FOUND, PLAIT_ERR_IO for what cannot be listed; PLAIT_ERR_DATA for no
  // classes, a class without images or with a name that is not UTF-8, an empty file, something that
  // is no file, a link that leads to nothing or back to a folder above it.
  Tree(std::string root, const std::vector<std::string>& extensions);

  int64_t size() const { return static_cast<int64_t>(begin_.size()) - 1; }
  std::string path(int64_t image) const;
  int32_t label(int64_t image) const;
  const std::vector<std::string>& classes() const { return classes_; }
  uint64_t fingerprint() const { return fingerprint_; }  // of names and sizes of files
  uint64_t host_bytes() const;
  // Images of formats that are not read: how many, and one of them.
  int64_t other_images() const { return other_images_; }
  const std::string& other_image() const { return other_image_; }

 private:
  class Walk;
  std::string root_;
  std::string names_;            // of all images below root, one behind the other
  std::vector<uint64_t> begin_;  // (images + 1): where a name begins
  std::vector<int64_t> first_;   // (classes): its first image
  std::vector<std::string> classes_;
  int64_t other_images_ = 0;
  std::string other_image_;
  uint64_t fingerprint_ = 0;
};

}  // namespace plait::data::images

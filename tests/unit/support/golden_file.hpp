// A file of tests/golden.
#pragma once

#include <string>
#include <vector>

#include "kit/safetensors.hpp"

namespace plait::test {

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name);  // "training.safetensors"
  const std::string& path() const { return path_; }
  const kit::SafetensorsHeader& header() const { return header_; }
  // All elements of one tensor. F64, F32, BF16, I64 or I32.
  std::vector<double> values(const kit::SafetensorsEntry& entry) const;
  std::vector<double> values(const std::string& tensor) const;
  // What follows `prefix` in the names of the tensors that begin with it, sorted.
  std::vector<std::string> names(const std::string& prefix) const;

 private:
  std::string path_, bytes_;
  kit::SafetensorsHeader header_;
};

}  // namespace plait::test

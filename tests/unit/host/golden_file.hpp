// A file of tests/golden.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace host {

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name);  // "training.safetensors"
  const std::string& path() const { return path_; }
  // All elements of one tensor. F64, F32, BF16, I64 or I32.
  std::vector<double> values(const std::string& tensor) const;
  // What follows `prefix` in the names of the tensors that begin with it.
  std::vector<std::string> names(const std::string& prefix) const;
  nlohmann::json metadata() const { return header_["__metadata__"]; }

 private:
  std::string path_;
  nlohmann::json header_;
  std::vector<char> data_;
};

}  // namespace host

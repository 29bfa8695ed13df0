// The files of a folder of Hugging Face beside config.json.
#pragma once

#include <plait/plugin.hpp>

#include <map>
#include <string>
#include <vector>

namespace plait::hf {

// The tensors of a folder, by the headers of its safetensors files.
class Folder {
 public:
  // Errors: PLAIT_ERR_NOT_FOUND if there are no safetensors; PLAIT_ERR_DATA for a malformed file;
  // PLAIT_ERR_IO.
  explicit Folder(const std::string& path);
  bool has(const std::string& tensor) const { return files_.contains(tensor); }
  // Errors: PLAIT_ERR_DATA unless both tensors have equal bytes.
  void check_equal(const std::string& a, const std::string& b) const;
  // Errors: PLAIT_ERR_DATA if the folder has the tensor in another shape.
  void check_shape(const std::string& tensor, const std::vector<int64_t>& shape) const;

 private:
  void read_index(const std::string& path);
  void read_header(const std::string& name);

  std::string path_;
  std::map<std::string, std::string> files_;            // tensor -> file
  std::map<std::string, std::vector<int64_t>> shapes_;  // of the tensors of all files
};

// Copies what belongs to a model beside weights and config.json, as far as it is there: tokenizer,
// chat template, generation_config.json.
void copy_companions(const std::string& folder, const FormatOutput& out);

}  // namespace plait::hf

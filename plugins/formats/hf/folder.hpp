// The files of a folder of Hugging Face beside config.json.
#pragma once

#include <plait/plugin.hpp>

#include <map>
#include <string>

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

 private:
  std::string path_;
  std::map<std::string, std::string> files_;  // tensor -> file
};

// Copies what belongs to a model beside weights and config.json, as far as it is there: tokenizer,
// chat template, generation_config.json.
void copy_companions(const std::string& folder, const FormatOutput& out);

}  // namespace plait::hf

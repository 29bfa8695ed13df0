// Parameters of the base itself that learn beside an adapter, in the files of the library PEFT:
// biases (`bias` of its configuration) and whole modules (`modules_to_save`).
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kit/safetensors.hpp"
#include "plugins/formats/hf/model.hpp"
#include "plugins/formats/hf/modules.hpp"
#include "plugins/formats/hf/peft_files.hpp"
#include "plugins/support/json_file.hpp"

namespace plait::hf {

// The base's tensors in the files of an adapter.
class OwnParametersReader {
 public:
  // only: the word of `bias` for biases of the changed modules: "lora_only"; "": the type has
  // none. base_name: of the base in messages.
  // Errors: PLAIT_ERR_DATA for another word, or more than 1,000 names in modules_to_save.
  OwnParametersReader(const std::string& folder, const support::JsonPlace& config,
                      const Model& base, const std::string& base_name, const std::string& only,
                      const FormatOutput& out);

  // Whether the tensor is one of the base's that learned; then its place is told to the output.
  // Errors: PLAIT_ERR_DATA for another shape, or a module that the base does not have;
  // PLAIT_ERR_UNIMPLEMENTED for a table that is the head, and for one expert.
  bool take(const kit::SafetensorsEntry& entry);
  // Names of the parameters that learned, without the model's. Behind the last tensor.
  // Errors: PLAIT_ERR_DATA for a name in modules_to_save that no tensor has.
  std::vector<std::string> trained() const;

 private:
  const std::string* saved_by(std::string_view path) const;

  const std::string folder_, base_name_;
  const support::JsonPlace config_;
  const Model& base_;
  const FormatOutput& out_;
  const BaseTensors tensors_;
  bool biases_ = false;
  std::vector<std::string> saved_;  // modules_to_save
  std::set<std::string> found_;     // those that have a tensor
  std::set<std::string> tensors_read_;
  std::vector<std::string> trained_;
};

// The same of a checkpoint, for an export.
struct OwnParameters {
  bool biases = false;
  bool others = false;                         // biases of modules that no adapter changes
  std::vector<std::string> saved;              // paths of modules, as modules_to_save takes them
  std::set<std::string, std::less<>> written;  // parameters that have a place
};
// Tells the places of what `train` of the model names. model: as write_adapter(). changed: paths of
// the modules that adapters change.
// Errors: PLAIT_ERR_UNIMPLEMENTED for what the library's files do not hold, with what to do.
OwnParameters write_own_parameters(const nlohmann::json& model, const Model& of_family,
                                   const std::set<std::string, std::less<>>& changed,
                                   const FormatOutput& out);

}  // namespace plait::hf

// The types of adapters of single modules in the library PEFT: the keys and tensors that their
// files have.
#pragma once

#include <span>
#include <string_view>

#include "plugins/support/json_file.hpp"

namespace plait::hf {

inline constexpr char kMagnitude[] = ".lora_magnitude_vector";
inline constexpr char kVeraA[] = "base_model.vera_A", kVeraB[] = "base_model.vera_B";

// What files of a type of the library have.
struct ModuleType {
  const char *peft_type, *words;              // in messages
  std::span<const char* const> keys;          // of adapter_config.json, beside what all types have
  std::span<const std::string_view> ends;     // of names of tensors, behind the module's path
  std::span<const std::string_view> tensors;  // of no module
  const char* biases = "";                    // the word of `bias` for biases of changed modules
};

// Errors: PLAIT_ERR_DATA for a `peft_type` of no such type.
const ModuleType& module_type_of(const support::JsonPlace& config);

}  // namespace plait::hf

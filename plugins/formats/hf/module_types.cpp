#include "plugins/formats/hf/module_types.hpp"

#include <algorithm>
#include <array>

namespace plait::hf {
namespace {

constexpr const char* kLoraKeys[] = {"bias",
                                     "modules_to_save",
                                     "target_modules",
                                     "exclude_modules",
                                     "r",
                                     "lora_alpha",
                                     "lora_dropout",
                                     "fan_in_fan_out",
                                     "use_rslora",
                                     "use_dora",
                                     "rank_pattern",
                                     "alpha_pattern",
                                     "init_lora_weights",
                                     "layers_to_transform",
                                     "layers_pattern",
                                     "megatron_config",
                                     "megatron_core",
                                     "loftq_config",
                                     "eva_config",
                                     "corda_config",
                                     "lora_ga_config",
                                     "runtime_config",
                                     "qalora_group_size",
                                     "ensure_weight_tying"};
// The library's AdaLoraConfig is a LoraConfig with more.
constexpr const char* kRankKeys[] = {"init_r", "target_r", "tinit",           "tfinal",    "deltaT",
                                     "beta1",  "beta2",    "orth_reg_weight", "total_step"};
constexpr auto kAdaloraKeys = [] {
  std::array<const char*, std::size(kLoraKeys) + std::size(kRankKeys)> all{};
  std::copy_n(kRankKeys, std::size(kRankKeys),
              std::copy_n(kLoraKeys, std::size(kLoraKeys), all.begin()));
  return all;
}();
constexpr const char* kIa3Keys[] = {"modules_to_save",     "target_modules", "exclude_modules",
                                    "feedforward_modules", "fan_in_fan_out", "init_ia3_weights"};
constexpr const char* kVeraKeys[] = {"bias",
                                     "modules_to_save",
                                     "target_modules",
                                     "exclude_modules",
                                     "r",
                                     "projection_prng_key",
                                     "save_projection",
                                     "vera_dropout",
                                     "d_initial",
                                     "fan_in_fan_out",
                                     "init_weights",
                                     "layers_to_transform",
                                     "layers_pattern"};
constexpr std::string_view kLoraEnds[] = {".lora_A.weight", ".lora_B.weight", ".lora_embedding_A",
                                          ".lora_embedding_B", kMagnitude};
constexpr std::string_view kAdaloraEnds[] = {".lora_A", ".lora_B", ".lora_E", ".ranknum"};
constexpr std::string_view kIa3Ends[] = {".ia3_l"};
constexpr std::string_view kVeraEnds[] = {".vera_lambda_d", ".vera_lambda_b"};
constexpr std::string_view kVeraTensors[] = {kVeraA, kVeraB};
constexpr ModuleType kTypes[] = {
    {"LORA", "LoRA", kLoraKeys, kLoraEnds, {}, "lora_only"},
    {"ADALORA", "AdaLoRA", kAdaloraKeys, kAdaloraEnds, {}, "lora_only"},
    {"IA3", "IA3", kIa3Keys, kIa3Ends, {}},
    {"VERA", "VeRA", kVeraKeys, kVeraEnds, kVeraTensors, "vera_only"}};

}  // namespace

const ModuleType& module_type_of(const support::JsonPlace& config) {
  for (const ModuleType& type : kTypes)
    if (config["peft_type"].text() == type.peft_type) return type;
  config["peft_type"].bad("it is no type of single modules");
}

}  // namespace plait::hf

// Tokens in front of a prompt, in whose place adapters put vectors (soft_prompt, prefix).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace plait::cli {

using Json = nlohmann::ordered_json;

class Placeholders {
 public:
  // values: of an experiment, as Experiment::describe() tells them. given: --placeholders; without
  // it, there are as many as the adapter that answers has of `n_tokens`, its option.
  Placeholders(const Json& values, std::optional<int64_t> given);

  // Those of a prompt, of id 0. adapter: of the prompt, "": the model alone where samples choose.
  std::vector<int32_t> of(const std::string& adapter) const;
  // The adapter that they are of, where nobody has said how many there are; "" else.
  std::string adapter_of(const std::string& adapter) const;

 private:
  struct Adapter {
    std::string name;
    int64_t n_tokens;
  };
  const Adapter* most(const std::string& adapter) const;  // NULL: there are none

  std::optional<int64_t> given_;
  bool chosen_ = false;  // by model.adapter_field
  std::vector<Adapter> adapters_;
};

}  // namespace plait::cli

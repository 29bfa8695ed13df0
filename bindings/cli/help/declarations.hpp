// What an experiment may contain: the tables and items that the engine and its plugins declare.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <plait/plait.hpp>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// "layer" of "plait.layer/1".
std::string kind_word(const std::string& kind);

class Declarations {
 public:
  explicit Declarations(const Engine& engine);

  // Tables of an experiment, as Engine::describe() has them.
  const Json& tables() const { return facts_.at("tables"); }
  // The table that lies at a path, "model.layers[2]", and holds for that `type`; null if there is
  // none.
  const Json& table(const std::string& path, const std::string& type) const;
  // The items of a kind, sorted by name; each has the member "plugin".
  std::vector<Json> items(const std::string& kind) const;
  // Of all kinds that an experiment may have, without kernels and ops.
  std::vector<Json> items() const;
  const Json& item(const std::string& kind, const std::string& name) const;  // null: none
  // The declaration of a key in the table at `path` whose item is `type`; null if there is none.
  const Json& key(const std::string& path, const std::string& type, const std::string& name) const;

 private:
  Json facts_;
};

// Whether a path of an experiment is one of those that a pattern means: "[]" is any element of a
// list, NAME and FIELD any name. Layers inside a block are like layers.
bool is_path_of(const std::string& path, const std::string& pattern);

}  // namespace plait::cli

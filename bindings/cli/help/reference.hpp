// Declarations as text: for `plait keys` and the page REFERENCE.md.
#pragma once

#include <string>

#include "bindings/cli/help/declarations.hpp"

namespace plait::cli {

// "[run]", "[[model.layers]]", "[[model.layers]] type = "block"".
std::string header_of(const Json& table);
// "seed = 42", "out (required)".
std::string key_text(const Json& key);
// "integer >= 0, in steps; length of the run".
std::string meaning_of(const Json& key);

// What the key `extends` is, which is above all tables.
const char* about_extends();

// All tables of an experiment, then all items by kind, as Markdown.
std::string reference_page(const Declarations& declarations);

}  // namespace plait::cli

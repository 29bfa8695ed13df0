// What an experiment may contain, as JSON: hosts complete, document and offer keys with it.
#pragma once

#include <plait/option.h>

#include "engine/base/json.hpp"

namespace plait::config {

// One declared option: {"name", "type", "help", "default" (TOML; null: required), limits,
// "choices" or "kind", "unit", "expected" ("integer >= 1, in steps"), "text" (all in one line)}.
void write_option(JsonWriter& json, const plait_option& option);

// The tables of an experiment, in the order in which they are documented: [{"path", "also", "help",
// "kind", "named_by", "type", "keys"}]. In a path "[]" is any element of a list, and NAME or FIELD
// any name; "also" are other paths of the same table. "kind" is the kind of item that the key
// "type" of the table names, or, where there is "named_by", that key of a section; its options
// stand beside "keys", which are the engine's own. "type" is the one `type` for which a table
// holds, where it is no item.
void write_tables(JsonWriter& json);

}  // namespace plait::config

// Parsed JSON. Its destructor allocates nothing, so a value can be dropped when memory is short
// (nlohmann's values allocate there, and end the process if they can't).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

struct JsonValue {
  enum class Kind : uint8_t { kNull, kBool, kNegative, kWhole, kReal, kText, kList, kObject };

  Kind kind = Kind::kNull;
  uint64_t whole = 0;             // a whole number, below 0 in two's complement; 1: true
  std::string text;               // of a text; of a real number: its digits
  std::vector<JsonValue> items;   // of a list or an object
  std::vector<std::string> keys;  // of an object, one per item

  bool is(Kind other) const { return kind == other; }
  // The item of an object, NULL if there is none; of several with one key the last.
  const JsonValue* find(std::string_view key) const;
};

// Errors: PLAIT_ERR_DATA with a text of what is wrong, without a subject: "is not JSON (...)", "is
// nested too deeply".
JsonValue parse_json(std::string_view text, size_t max_depth = 64);

// For texts that are too large to hold as values at once.
struct JsonLimits {
  size_t max_depth = 64;
  size_t max_values = SIZE_MAX;  // that exist at a time; more are PLAIT_ERR_DATA
  // Called for each item of a list that is an item of the root, an object, with that list's key.
  // Returns whether it has taken the item, which then is in the list no more. root: what has been
  // read so far. It may throw, to end the parser.
  std::function<bool(const JsonValue& root, const std::string& key, JsonValue& item)> take = {};
};
JsonValue parse_json(std::string_view text, const JsonLimits& limits);

// Without blanks.
std::string json_text(const JsonValue& value);

}  // namespace plait

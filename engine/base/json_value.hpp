// Parsed JSON. Its destructor allocates nothing, so a value can be dropped when memory is short
// (nlohmann's values allocate there, and end the process if they can't).
#pragma once

#include <cstdint>
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

// Without blanks.
std::string json_text(const JsonValue& value);

}  // namespace plait

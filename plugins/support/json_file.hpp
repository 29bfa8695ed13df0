// A JSON file that is not trusted: every look into it says, if it fails, which file, where in it,
// what is there and what was expected.
#pragma once

#include <plait/plugin.hpp>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "plugins/support/file_bytes.hpp"

namespace plait::support {

// A value of a file, and its place. Borrows the file.
class JsonPlace {
 public:
  JsonPlace(const SourceFile& file, const nlohmann::json& value, std::string path)
      : file_(&file), value_(&value), path_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  // What is not there counts as null.
  bool null() const { return value_->is_null(); }
  JsonPlace operator[](std::string_view key) const;  // of an object; null if it has no such key
  JsonPlace operator[](size_t i) const;              // of a list

  // Each fails on another type, and with a fallback not on null.
  const std::string& text() const;
  std::string text(std::string_view fallback) const {
    return null() ? std::string(fallback) : text();
  }
  bool flag(bool fallback) const;
  double number() const;
  int64_t whole(int64_t least, int64_t most) const;
  size_t size() const;  // of a list; of null 0
  const nlohmann::json& object() const;

  // Throws: "<file>, key '<path>': <found>".
  [[noreturn]] void bad(const std::string& found, uint32_t code = PLAIT_ERR_DATA) const;
  // Throws PLAIT_ERR_UNIMPLEMENTED: the value is of a sort that is not known.
  [[noreturn]] void unknown(const std::string& known) const;

 private:
  [[noreturn]] void expected(const char* what) const;
  const SourceFile* file_;
  const nlohmann::json* value_;
  std::string path_;
};

// The content of the file, in `bytes`. Errors: PLAIT_ERR_DATA with the offset.
nlohmann::json parse_json(const SourceFile& file, std::span<const uint8_t> bytes);

}  // namespace plait::support

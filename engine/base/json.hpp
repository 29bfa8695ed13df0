// Writes JSON text and places commas and quotes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plait {

// "text" with quotes and escapes; bytes that are not valid UTF-8 become U+FFFD.
std::string json_quote(std::string_view text);

class JsonWriter {
 public:
  explicit JsonWriter(bool pretty = false) : pretty_(pretty) {}

  JsonWriter& object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text) { return raw(json_quote(text)); }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool v) { return raw(v ? "true" : "false"); }
  JsonWriter& value(int64_t v) { return raw(std::to_string(v)); }
  JsonWriter& value(uint64_t v) { return raw(std::to_string(v)); }
  JsonWriter& value(int v) { return raw(std::to_string(v)); }
  JsonWriter& value(uint32_t v) { return raw(std::to_string(v)); }
  JsonWriter& value(double v);  // not finite: the texts "nan", "inf", "-inf"
  JsonWriter& null() { return raw("null"); }
  // Adds a value that is already JSON.
  JsonWriter& raw(std::string_view json);

  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }
  template <class Range>
  JsonWriter& texts(std::string_view name, const Range& all) {
    key(name).array();
    for (const auto& one : all) value(std::string_view(one));
    return end_array();
  }

  const std::string& text() const { return out_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void new_line();
  std::string out_;
  bool pretty_;
  bool first_ = true;
  bool after_key_ = false;
  int depth_ = 0;
};

}  // namespace plait

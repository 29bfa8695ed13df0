#include "plugins/support/json_file.hpp"

#include <cmath>

#include "kit/json_depth.hpp"

namespace plait::support {

using nlohmann::json;

namespace {

// Without the library's name of the exception, "[json.exception...] ".
std::string what_of(const json::exception& e) {
  const std::string text = e.what();
  const size_t at = text.find("] ");
  return text.starts_with('[') && at != std::string::npos ? text.substr(at + 2) : text;
}

}  // namespace

nlohmann::json parse_json(const SourceFile& file, std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const size_t at = kit::too_deep_in_json(text); at != std::string_view::npos)
    file.bad(at, "lists and objects are nested more than " + std::to_string(kit::kMostJsonLevels) +
                     " deep");
  try {
    return json::parse(bytes.begin(), bytes.end());
  } catch (const json::parse_error& e) {
    // The library counts bytes from one.
    file.bad(e.byte > 0 ? e.byte - 1 : 0,
             "not valid JSON: " + what_of(e) + "; is the file complete?");
  } catch (const json::out_of_range& e) {
    file.bad(0, "a number is out of range: " + what_of(e));
  }
}

void JsonPlace::bad(const std::string& found, uint32_t code) const {
  fail(code, file_->text() + (path_.empty() ? "" : ", key '" + path_ + "'") + ": " + found);
}
void JsonPlace::expected(const char* what) const {
  bad(std::string("found ") + (null() ? "nothing" : value_->type_name()) + ", expected " + what);
}
void JsonPlace::unknown(const std::string& known) const {
  const std::string found = value_->is_string() ? "'" + value_->get<std::string>() + "'" : "this";
  bad(found + " is not known; known are " + known, PLAIT_ERR_UNIMPLEMENTED);
}

JsonPlace JsonPlace::operator[](std::string_view key) const {
  static const json kNull;
  const std::string path = (path_.empty() ? "" : path_ + ".") + std::string(key);
  if (null()) return {*file_, kNull, path};
  const auto at = object().find(key);
  return {*file_, at == value_->end() ? kNull : *at, path};
}
JsonPlace JsonPlace::operator[](size_t i) const {
  if (i >= size()) expected("a longer list");
  return {*file_, (*value_)[i], path_ + "[" + std::to_string(i) + "]"};
}

const std::string& JsonPlace::text() const {
  if (!value_->is_string()) expected("a text");
  return value_->get_ref<const std::string&>();
}
bool JsonPlace::flag(bool fallback) const {
  if (null()) return fallback;
  if (!value_->is_boolean()) expected("true or false");
  return value_->get<bool>();
}
double JsonPlace::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) expected("a number");
  return value_->get<double>();
}
int64_t JsonPlace::whole(int64_t least, int64_t most) const {
  const bool in_range = value_->is_number_integer() &&
                        !(value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX) &&
                        value_->get<int64_t>() >= least && value_->get<int64_t>() <= most;
  if (!in_range)
    bad("found " + value_->dump() + ", expected a whole number from " + std::to_string(least) +
        " to " + std::to_string(most));
  return value_->get<int64_t>();
}
size_t JsonPlace::size() const {
  if (null()) return 0;
  if (!value_->is_array()) expected("a list");
  return value_->size();
}
const json& JsonPlace::object() const {
  if (!value_->is_object()) expected("an object");
  return *value_;
}

}  // namespace plait::support

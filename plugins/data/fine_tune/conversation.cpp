#include "plugins/data/fine_tune/conversation.hpp"

#include <plait/plugin.hpp>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "kit/json_depth.hpp"

namespace plait::data::fine_tune {
namespace {

using nlohmann::json;

std::string keys_of(const json& object) {
  std::string keys;
  for (const auto& [key, value] : object.items()) {
    if (keys.size() > 200) return keys + ", ...";
    keys += (keys.empty() ? "" : ", ") + key;
  }
  return keys.empty() ? "none" : keys;
}

// A value of the line, with its key for messages.
class Place {
 public:
  Place(const std::string& where, const json& value, std::string key)
      : where_(where), value_(value), key_(std::move(key)) {}

  [[noreturn]] void bad(const std::string& what) const {
    fail(PLAIT_ERR_DATA, where_ + (key_.empty() ? "" : ", key '" + key_ + "'") + ": " + what);
  }
  bool has(const char* key) const {
    const auto at = value_.find(key);
    return at != value_.end() && !at->is_null();
  }
  Place operator[](const char* key) const {
    const std::string path = (key_.empty() ? "" : key_ + ".") + key;
    const auto at = value_.find(key);
    if (at == value_.end())
      Place(where_, value_, path).bad("is missing; there are: " + keys_of(value_));
    return {where_, *at, path};
  }
  Place operator[](size_t i) const {
    return {where_, value_[i], key_ + "[" + std::to_string(i) + "]"};
  }
  void expect_object() const {
    if (!value_.is_object())
      bad(std::string("found ") + value_.type_name() + ", expected an object");
  }
  size_t size() const {
    if (!value_.is_array()) bad(std::string("found ") + value_.type_name() + ", expected a list");
    return value_.size();
  }
  std::string text() const {
    if (value_.is_array())
      bad("found a list, expected a text: parts, as of images, are not read; join their texts");
    if (!value_.is_string()) bad(std::string("found ") + value_.type_name() + ", expected a text");
    return value_.get<std::string>();
  }
  double weight() const {
    const double w = value_.is_number() ? value_.get<double>() : -1;
    if (!std::isfinite(w) || w < 0)
      bad("found " + value_.dump(-1, ' ', true, json::error_handler_t::replace) +
          ", expected a number, at least 0");
    return w;
  }

 private:
  const std::string& where_;
  const json& value_;
  std::string key_;
};

Message message_of(const Place& place) {
  place.expect_object();
  Message m;
  m.role = place["role"].text();
  if (m.role != "system" && m.role != "user" && m.role != "assistant")
    place["role"].bad("found '" + m.role + "', expected system, user or assistant");
  for (const char* key : {"tool_calls", "function_call"})
    if (place.has(key))
      place[key].bad("tools are not read; render such conversations to prompts and completions");
  m.text = place["content"].text();
  if (!place.has("weight")) return m;
  if (m.role != "assistant") place["weight"].bad("only messages of the assistant have a weight");
  m.weight = place["weight"].weight();
  return m;
}

json parse(const std::string& where, std::string_view line) {
  if (const size_t at = kit::too_deep_in_json(line); at != std::string_view::npos)
    fail(PLAIT_ERR_DATA, where + ": lists and objects are nested more than " +
                             std::to_string(kit::kMostJsonLevels) + " deep, at byte " +
                             std::to_string(at));
  try {
    return json::parse(line);
  } catch (const json::exception& e) {
    fail(PLAIT_ERR_DATA, where + ": this is no JSON: " + e.what());
  }
}

}  // namespace

Conversation parse_line(const std::string& where, std::string_view line) {
  if (line.size() > kLongestLine)
    fail(PLAIT_ERR_DATA, where + ": the line has " + std::to_string(line.size()) +
                             " bytes, at most " + std::to_string(kLongestLine) +
                             " are read; is it JSON Lines?");
  const json value = parse(where, line);
  const Place root(where, value, "");
  root.expect_object();
  Conversation c;
  if (root.has("messages")) {
    const Place messages = root["messages"];
    const size_t n = messages.size();
    if (n == 0 || n > kMostMessages)
      messages.bad("found " + std::to_string(n) + " messages, expected 1 to " +
                   std::to_string(kMostMessages));
    bool replies = false;
    for (size_t i = 0; i < n; ++i) {
      c.messages.push_back(message_of(messages[i]));
      replies |= c.messages.back().role == "assistant";
    }
    if (!replies)
      messages.bad("no message is the assistant's, so there is nothing to learn; remove the line");
    return c;
  }
  if (!root.has("prompt") && !root.has("completion"))
    root.bad("there is neither 'messages' nor 'prompt' and 'completion'; there are: " +
             keys_of(value));
  c.raw = true;
  c.messages = {
      {"user", root["prompt"].text(), 1},
      {"assistant", root["completion"].text(), root.has("weight") ? root["weight"].weight() : 1}};
  return c;
}

Lines::Lines(std::string_view file) : rest_(file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
}

bool Lines::next(std::string_view& line) {
  while (!rest_.empty()) {
    const size_t end = rest_.find('\n');
    line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++number_;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace plait::data::fine_tune

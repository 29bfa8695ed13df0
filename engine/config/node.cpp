#include "engine/config/node.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::config {

Node::Node(NodeKind kind, Origin origin) : kind_(kind), origin_(std::move(origin)) {}

Node Node::table(Origin origin) { return Node(NodeKind::kTable, std::move(origin)); }
Node Node::array(Origin origin) { return Node(NodeKind::kArray, std::move(origin)); }
Node Node::integer(int64_t v, Origin origin) {
  Node node(NodeKind::kInt, std::move(origin));
  node.int_ = v;
  return node;
}
Node Node::real(double v, Origin origin) {
  Node node(NodeKind::kReal, std::move(origin));
  node.real_ = v;
  return node;
}
Node Node::boolean(bool v, Origin origin) {
  Node node(NodeKind::kBool, std::move(origin));
  node.int_ = v;
  return node;
}
Node Node::text(std::string v, Origin origin) {
  Node node(NodeKind::kText, std::move(origin));
  node.text_ = std::move(v);
  return node;
}
Node Node::date(std::string v, Origin origin) {
  Node node(NodeKind::kDate, std::move(origin));
  node.text_ = std::move(v);
  return node;
}

const Node& Node::find(std::string_view key) const {
  static const Node kNothing;
  for (const Entry& entry : entries_)
    if (entry.key == key) return entry.value;
  return kNothing;
}

Node* Node::find_mutable(std::string_view key) {
  for (Entry& entry : entries_)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

std::vector<std::string> Node::keys() const {
  std::vector<std::string> keys;
  for (const Entry& entry : entries_) keys.push_back(entry.key);
  return keys;
}

Node& Node::set(const std::string& key, Node value, Origin key_origin) {
  for (Entry& entry : entries_)
    if (entry.key == key) {
      entry.origin = std::move(key_origin);
      return entry.value = std::move(value);
    }
  entries_.push_back({key, std::move(key_origin), std::move(value)});
  return entries_.back().value;
}

void Node::append(Entry entry) { entries_.push_back(std::move(entry)); }

bool Node::erase(std::string_view key) {
  return std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; }) != 0;
}

void Node::wrong_kind(const char* wanted) const {
  fail_internal("[config] " + origin_.text() + " is " + kind_name() + " and was read as " + wanted);
}

int64_t Node::as_int() const {
  if (kind_ != NodeKind::kInt) wrong_kind("an integer");
  return int_;
}
double Node::as_real() const {
  if (kind_ == NodeKind::kInt) return static_cast<double>(int_);
  if (kind_ != NodeKind::kReal) wrong_kind("a number");
  return real_;
}
bool Node::as_bool() const {
  if (kind_ != NodeKind::kBool) wrong_kind("true or false");
  return int_ != 0;
}
const std::string& Node::as_text() const {
  if (kind_ != NodeKind::kText && kind_ != NodeKind::kDate) wrong_kind("a string");
  return text_;
}

const char* Node::kind_name() const {
  switch (kind_) {
    case NodeKind::kAbsent:
      return "nothing";
    case NodeKind::kTable:
      return "a table";
    case NodeKind::kArray:
      return "a list";
    case NodeKind::kInt:
      return "an integer";
    case NodeKind::kReal:
      return "a real number";
    case NodeKind::kBool:
      return "true or false";
    case NodeKind::kText:
      return "a string";
    case NodeKind::kDate:
      return "a date or time";
  }
  return "nothing";
}

std::string Node::toml() const {
  std::vector<std::string> parts;
  switch (kind_) {
    case NodeKind::kAbsent:
      return "";
    case NodeKind::kInt:
      return std::to_string(int_);
    case NodeKind::kReal:
      return toml_real(real_);
    case NodeKind::kBool:
      return int_ ? "true" : "false";
    case NodeKind::kText:
      return toml_text(text_);
    case NodeKind::kDate:
      return text_;
    case NodeKind::kArray:
      for (const Node& item : items_) parts.push_back(item.toml());
      return "[" + join(parts) + "]";
    case NodeKind::kTable:
      for (const Entry& entry : entries_)
        parts.push_back(toml_key(entry.key) + " = " + entry.value.toml());
      return "{" + join(parts) + "}";
  }
  return "";
}

std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      out += strf("\\u%04X", static_cast<unsigned>(byte));
    else
      out += c;
  }
  return out + "\"";
}

std::string toml_key(std::string_view key) {
  const auto bare = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !key.empty() && std::all_of(key.begin(), key.end(), bare) ? std::string(key)
                                                                   : toml_text(key);
}

std::string toml_real(double value) { return real_text(value); }

}  // namespace plait::config

// A TOML value with its position in the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/problem.hpp"

namespace plait::config {

// kAbsent: there is no such value. kDate: a TOML date or time, which no key accepts.
enum class NodeKind { kAbsent, kTable, kArray, kInt, kReal, kBool, kText, kDate };

// A value with everything inside it; copies are deep. Keys keep the order of the file.
class Node {
 public:
  struct Entry;

  Node() = default;
  static Node table(Origin origin);
  static Node array(Origin origin);
  static Node integer(int64_t v, Origin origin);
  static Node real(double v, Origin origin);
  static Node boolean(bool v, Origin origin);
  static Node text(std::string v, Origin origin);
  static Node date(std::string v, Origin origin);

  NodeKind kind() const { return kind_; }
  bool absent() const { return kind_ == NodeKind::kAbsent; }
  explicit operator bool() const { return !absent(); }
  bool is(NodeKind kind) const { return kind_ == kind; }
  const Origin& origin() const { return origin_; }

  // For a table. find() returns an absent node if the key is missing or this is not a table.
  const Node& find(std::string_view key) const;
  const Node& operator[](std::string_view key) const { return find(key); }
  bool has(std::string_view key) const { return !find(key).absent(); }
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<std::string> keys() const;
  // For an array.
  const std::vector<Node>& items() const { return items_; }

  // For a scalar. The wrong kind is PLAIT_ERR_INTERNAL: check kind() first.
  int64_t as_int() const;
  double as_real() const;  // integers, too
  bool as_bool() const;
  const std::string& as_text() const;

  // The kind in messages: "a string", "an integer", "a table".
  const char* kind_name() const;
  // The value as TOML: 1, "text", [1, 2], {a = 1}.
  std::string toml() const;

  // Modification, for documents and overrides only.
  Node& set(const std::string& key, Node value, Origin key_origin);  // adds or replaces
  void append(Entry entry);                                          // the key must be new
  bool erase(std::string_view key);
  Node* find_mutable(std::string_view key);
  std::vector<Node>& items_mutable() { return items_; }

 private:
  Node(NodeKind kind, Origin origin);
  [[noreturn]] void wrong_kind(const char* wanted) const;

  NodeKind kind_ = NodeKind::kAbsent;
  Origin origin_ = Origin::none();
  int64_t int_ = 0;  // also the value of a bool
  double real_ = 0;
  std::string text_;
  std::vector<Node> items_;
  std::vector<Entry> entries_;
};

struct Node::Entry {
  std::string key;
  Origin origin;  // of the key
  Node value;
};

// A text as a quoted TOML basic string; a key as written left of '='.
std::string toml_text(std::string_view text);
std::string toml_key(std::string_view key);
// A real number as TOML: "0.1", "1.0", "inf".
std::string toml_real(double value);

}  // namespace plait::config

// A TOML file in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/config/node.hpp"

namespace plait {
class FileSystem;
}

namespace plait::config {

inline constexpr uint64_t kMaxFileBytes = 4u << 20;
inline constexpr int kMaxDepth = 64;     // of nested values
inline constexpr int kMaxKeyParts = 32;  // of a dotted key

struct Document {
  Node root = Node::table(Origin::none());
  std::string file;    // as given
  std::string folder;  // of the file: relative paths lie there; "." for a text

  // Syntax errors become one problem each, with line and column; root is an empty table then. Never throws on any text.
  static Document parse(std::string_view text, const std::string& file, Problems& problems);
  // An absent or unreadable file is a problem too.
  static Document read(FileSystem& files, const std::string& path, Problems& problems);
};

// One value in TOML syntax; what is no TOML value is taken as a text: 1 -> integer, [1, 2] -> array, adam -> "adam".
Node parse_value(std::string_view text, const Origin& origin, Problems& problems);

// Applies "a.b=v" (or "~a.b", which removes). Tables on the way are made; array elements must exist: "model.layers[0].out=64".
// Whether a key is known is judged by the later check.
void apply_override(Document& document, std::string_view text, Problems& problems);

}  // namespace plait::config

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
  std::string folder;  // of the file: the base of relative paths; "." for a text

  // Every syntax error becomes one problem with line and column; root is then an empty table.
  // Throws on no text, but where memory is short.
  static Document parse(std::string_view text, const std::string& file, Problems& problems);
  // An absent or unreadable file is a problem, too. Errors: PLAIT_ERR_MEMORY.
  static Document parse_file(FileSystem& files, const std::string& path, Problems& problems);
  // The same with the files that it extends (extends.hpp).
  static Document read(FileSystem& files, const std::string& path, Problems& problems);
};

// Parses one value in TOML syntax; other text is taken as a string: 1 -> integer, [1, 2] -> array,
// adam -> "adam".
Node parse_value(std::string_view text, const Origin& origin, Problems& problems);

// Applies "a.b=v" (or "~a.b", which removes). Missing tables are created; array elements must
// exist: "model.layers[0].out=64". Unknown keys are reported by a later check.
void apply_override(Document& document, std::string_view text, Problems& problems);

}  // namespace plait::config

#include "bindings/cli/terminal/definitions.hpp"

#include <algorithm>

#include "bindings/cli/terminal/cells.hpp"

namespace plait::cli {
namespace {

constexpr int kBelow = 4, kLeastText = 36;  // columns

std::string blanks(int n) { return std::string(static_cast<size_t>(std::max(n, 0)), ' '); }

// The text in lines of so many columns, each with the indent in front.
std::string block(const std::string& text, int indent, int columns, bool utf8) {
  std::string all;
  int used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string word = text.substr(at, end - at);
    const int width = columns_of(word, utf8);
    const bool breaks = at > 0 && text[at - 1] == '\n';
    if (all.empty() || breaks || (columns > 0 && used + 1 + width > columns)) {
      all += (all.empty() ? "" : "\n") + blanks(indent) + word;
      used = indent + width;
    } else {
      all += " " + word;
      used += 1 + width;
    }
    at = end + 1;
  }
  return all;
}

}  // namespace

std::string definition(const std::string& name, const std::string& text, int begin, int columns,
                       bool utf8, int indent) {
  const bool below = columns > 0 && columns - begin < kLeastText;
  const std::string first = blanks(indent) + name;
  if (text.empty()) return first + "\n";
  const int of_text = below ? indent + kBelow : begin, width = columns_of(first, utf8);
  const std::string lines = block(text, of_text, columns, utf8);
  if (below || width >= begin) return wrapped(first, columns, utf8) + "\n" + lines + "\n";
  return first + blanks(begin - width) + lines.substr(static_cast<size_t>(of_text)) + "\n";
}

}  // namespace plait::cli

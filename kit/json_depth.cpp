#include "kit/json_depth.hpp"

namespace plait::kit {

size_t too_deep_in_json(std::string_view text) {
  size_t level = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++level > kMostJsonLevels) return i;
    } else if ((c == ']' || c == '}') && level > 0) {
      --level;
    }
  }
  return std::string_view::npos;
}

}  // namespace plait::kit

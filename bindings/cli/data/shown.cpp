#include "bindings/cli/data/shown.hpp"

#include <algorithm>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {
namespace {

constexpr int64_t kIgnored = -100;

// Bytes of the well-formed character that the text begins with; 0: there is none.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t n = lead < 0x80   ? 1
                   : lead < 0xC2 ? 0
                   : lead < 0xE0 ? 2
                   : lead < 0xF0 ? 3
                   : lead < 0xF5 ? 4
                                 : 0;
  if (n == 0 || n > text.size()) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
      (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F))
    return 0;
  return n;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const size_t n = character_length(text);
    const auto c = static_cast<unsigned char>(text[0]);
    if (c == '\n')
      all += "\\n";
    else if (c == '\t')
      all += "\\t";
    else if (c == '\r')
      all += "\\r";
    else if (n == 0 || c < 0x20 || c == 0x7f)
      all += strf("\\x%02x", c);
    else
      all += text.substr(0, n);
    text.remove_prefix(std::max<size_t>(n, 1));
  }
  return all;
}

size_t without_padding(const ShownTokens& tokens) {
  size_t n = tokens.ids.size();
  if (tokens.labels.empty()) return n;
  while (n > 0 && tokens.ids[n - 1] == 0 && tokens.labels[n - 1] == kIgnored) --n;
  return n;
}

std::string marked_text(const ShownTokens& tokens, size_t n, const Decode& decode) {
  const std::span<const int64_t> ids(tokens.ids);
  if (tokens.labels.empty()) return one_line(decode(ids.first(n)));
  const auto learned = [&](size_t t) { return t > 0 && tokens.labels[t - 1] != kIgnored; };
  std::string all;
  for (size_t t = 0; t < n;) {
    size_t end = t + 1;
    while (end < n && learned(end) == learned(t)) ++end;
    const std::string part = one_line(decode(ids.subspan(t, end - t)));
    all += learned(t) ? "«" + part : part;
    // The last label is the token behind the last place.
    const bool last = end == n && n > 0 && tokens.labels[n - 1] != kIgnored;
    if (last) {
      const std::string label = one_line(decode(std::span(tokens.labels).subspan(n - 1, 1)));
      all += learned(t) ? label + "»" : "«" + label + "»";
    } else if (learned(t)) {
      all += "»";
    }
    t = end;
  }
  return all;
}

std::string numbers(std::span<const int64_t> all, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), most); ++i)
    text += (i ? " " : "") + (all[i] == kIgnored ? "-" : std::to_string(all[i]));
  if (all.size() > most) text += " ... (" + std::to_string(all.size() - most) + " more)";
  return text;
}

}  // namespace plait::cli

// Output: results go to stdout (text, or JSON with --json), everything else to stderr. Colour is
// used only on a terminal.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace plait::cli {

using Json = nlohmann::ordered_json;

class Terminal {
 public:
  bool json = false;    // --json
  bool quiet = false;   // -q
  int verbose = 0;      // -v
  bool silent = false;  // errors only: for ranks other than 0

  Terminal();
  uint32_t log_level() const;
  bool human() const { return !json; }

  // A line of text on stdout; nothing with --json.
  void line(std::string_view text);
  // The same, in lines that fit a terminal.
  void paragraph(std::string_view text);
  // One JSON value as a line on stdout; nothing without --json. An object without a schema gets
  // number 1. Invalid UTF-8 is replaced.
  void record(const Json& value);
  // A result that is plain text, unchanged.
  void raw(std::string_view text);
  // Why a result could not be written: an errno of the first one; 0: all were.
  int write_error() const { return write_error_; }

  // A remark on stderr; nothing with -q.
  void note(std::string_view text);
  // A remark on stderr that -q does not suppress: its first line, then the rest indented.
  void notice(std::string_view text);
  void log(uint32_t level, std::string_view text);
  // A line that another process wrote to its stderr.
  void relay(std::string_view text) { to_stderr(text); }
  // The message of a failure, on stderr: its first line, then the rest indented.
  void error(std::string_view text);

  // Where lines of several ranks come together in a file, though each has a terminal of its own.
  void without_color() { color_out_ = color_err_ = false; }
  bool colored() const { return color_out_; }
  bool utf8() const { return utf8_; }
  int columns() const;  // of stdout's window; 0: it is none
  int rows() const;     // likewise
  std::string bold(std::string_view text) const;
  std::string dim(std::string_view text) const;
  bool progress() const { return !quiet && !silent; }
  bool stderr_is_terminal() const { return stderr_terminal_; }

 private:
  void to_stderr(std::string_view text);
  bool stderr_terminal_, color_out_, color_err_, utf8_;
  int write_error_ = 0;
};

// For bash, on one line: unchanged if it has no special characters, else quoted.
std::string shell_quoted(std::string_view text);
// The same for a path that must not be taken for an option: "./-name".
std::string path_word(std::string_view path);
// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string strf(const char* format, ...);
// "1.5 MiB".
std::string bytes_text(double bytes);
// "3.2 GFLOP": value with a decimal prefix.
std::string scaled(double value, const char* unit);
// The candidate closest to `word`, or "" when none is close.
template <class Names>
std::string nearest(std::string_view word, const Names& names);
size_t edit_distance(std::string_view a, std::string_view b);

template <class Names>
std::string nearest(std::string_view word, const Names& names) {
  std::string best;
  size_t least = word.size() / 3 + 2;
  for (const auto& name : names)
    if (const size_t d = edit_distance(word, name); d < least) least = d, best = name;
  return best;
}

}  // namespace plait::cli

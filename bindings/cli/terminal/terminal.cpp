#include "bindings/cli/terminal/terminal.hpp"

#include <langinfo.h>
#include <plait/base.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "bindings/cli/terminal/cells.hpp"

namespace plait::cli {
namespace {

// It prints what it is sent, escape sequences too.
bool is_dumb() {
  const char* term = std::getenv("TERM");
  return term && std::string_view(term) == "dumb";
}

bool wants_color(int fd) {
  const char* none = std::getenv("NO_COLOR");
  return isatty(fd) && !(none && *none) && !is_dumb();
}

// Of the window behind it; 0: it is none.
int window_columns(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col > 0 ? size.ws_col : 80;  // a serial line does not know
}

std::string styled(bool on, const char* code, std::string_view text) {
  if (!on) return std::string(text);
  return std::string("\033[") + code + "m" + std::string(text) + "\033[0m";
}

// The first line, then the others indented.
std::string indented(std::string_view text) {
  std::string all;
  for (const char c : text) all += c == '\n' ? std::string("\n  ") : std::string(1, c);
  return all;
}

// PLAIT_EXPLAIN=1 prints even with -q.
bool explains() {
  const char* wanted = std::getenv("PLAIT_EXPLAIN");
  return wanted && std::string_view(wanted) == "1";
}

}  // namespace

Terminal::Terminal()
    : stderr_terminal_(isatty(STDERR_FILENO) != 0 && !is_dumb()),
      color_out_(wants_color(STDOUT_FILENO)),
      color_err_(wants_color(STDERR_FILENO)),
      utf8_(std::string_view(nl_langinfo(CODESET)) == "UTF-8") {}

int Terminal::columns() const { return window_columns(STDOUT_FILENO); }

int Terminal::rows() const {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_row > 0 ? size.ws_row : 24;
}

uint32_t Terminal::log_level() const {
  if (silent) return PLAIT_LOG_ERROR;
  if (quiet) return explains() ? PLAIT_LOG_INFO : PLAIT_LOG_WARN;
  return verbose > 0 ? PLAIT_LOG_DEBUG : PLAIT_LOG_INFO;
}

void Terminal::line(std::string_view text) {
  if (json || silent) return;
  raw(std::string(text) + "\n");
}

void Terminal::paragraph(std::string_view text) { line(wrapped(text, columns(), utf8_)); }

void Terminal::record(const Json& value) {
  if (!json || silent) return;
  if (stderr_terminal_ && isatty(STDOUT_FILENO)) std::fputs("\r\033[K", stderr);  // the bar
  const auto text = [](const Json& of) {
    return of.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  if (!value.is_object() || value.contains("schema")) return raw(text(value));
  Json whole = {{"schema", 1}};
  whole.update(value);
  raw(text(whole));
}

void Terminal::raw(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if ((std::fflush(stdout) != 0 || !written) && write_error_ == 0) write_error_ = errno;
}

void Terminal::to_stderr(std::string_view text) {
  // On a terminal, erase the progress bar that may be on this line; it redraws itself.
  const std::string all = (stderr_terminal_ ? "\r\033[K" : "") + std::string(text) + "\n";
  std::fwrite(all.data(), 1, all.size(), stderr);
}

void Terminal::note(std::string_view text) {
  if (!quiet && !silent) to_stderr(text);
}

namespace {

// Whether a remark or a warning of the engine was told before word by word, as where a dataset is
// opened again; [explain] has a line for each kernel. Of a long run's lines the later ones may come
// again.
bool is_told(uint32_t level, std::string_view text) {
  constexpr size_t kMost = 1000;
  static std::mutex mutex;
  static std::set<std::string, std::less<>> told;
  if (level != PLAIT_LOG_INFO && level != PLAIT_LOG_WARN) return false;
  if (text.starts_with("[explain]")) return false;
  const std::lock_guard lock(mutex);
  return told.contains(text) || (told.size() < kMost && !told.emplace(text).second);
}

}  // namespace

void Terminal::log(uint32_t level, std::string_view text) {
  if (silent && level < PLAIT_LOG_ERROR) return;
  if (quiet && level < PLAIT_LOG_WARN && !text.starts_with("[explain]")) return;
  if (is_told(level, text)) return;
  const char* color = level >= PLAIT_LOG_ERROR ? "31" : level == PLAIT_LOG_WARN ? "33" : "2";
  const std::string word = level == PLAIT_LOG_WARN    ? "warning: "
                           : level >= PLAIT_LOG_ERROR ? "error: "
                                                      : "";
  // Warnings and errors may name commands, which are copied: they stay whole.
  const int columns = level < PLAIT_LOG_WARN ? window_columns(STDERR_FILENO) : 0;
  to_stderr(styled(color_err_, color, wrapped(word + std::string(text), columns, utf8_)));
}

void Terminal::notice(std::string_view text) {
  if (!silent) to_stderr(indented(text));
}

void Terminal::error(std::string_view text) {
  to_stderr(styled(color_err_, "31;1", "error:") + " " + indented(text));
}

std::string Terminal::bold(std::string_view text) const { return styled(color_out_, "1", text); }
std::string Terminal::dim(std::string_view text) const { return styled(color_out_, "2", text); }

std::string shell_quoted(std::string_view text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_-./=,:+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  // On one line, without control characters, which a terminal would obey, and without bytes that
  // are not UTF-8, which it would not show.
  bool escapes = false;
  std::string escaped, as_it_is;
  for (size_t at = 0; at < text.size();) {
    const size_t before = at;
    const int32_t code = decode_utf8(text, at);
    const std::string_view letter = text.substr(before, at - before);
    as_it_is += code == '\'' ? "'\\''" : letter;
    if (code == '\'' || code == '\\') escaped += '\\';
    if (code >= 0 && !is_control(code)) {
      escaped += letter;
      continue;
    }
    escapes = true;
    for (const char c : letter) escaped += strf("\\%03o", static_cast<unsigned char>(c));
  }
  return escapes ? "$'" + escaped + "'" : "'" + as_it_is + "'";
}

std::string path_word(std::string_view path) {
  return shell_quoted((path.starts_with('-') ? "./" : "") + std::string(path));
}

std::string strf(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int size = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text(static_cast<size_t>(std::max(size, 0)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  return strf(unit ? "%.1f %s" : "%.0f %s", bytes, kUnits[unit]);
}

std::string scaled(double value, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t prefix = 0;
  while (value >= 1000 && prefix + 1 < std::size(kPrefixes)) value /= 1000, ++prefix;
  return strf(prefix ? "%.2f %s%s" : "%.0f %s%s", value, kPrefixes[prefix], unit);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace plait::cli

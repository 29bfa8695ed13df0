#include "engine/config/problem.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"

namespace plait::config {

std::string Origin::text() const {
  if (line <= 0) return file;
  return file + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::string Problem::text() const {
  std::string all = origin.text() + ": ";
  if (!path.empty()) all += path + ": ";
  all += message;
  if (!hint.empty()) all += "; " + hint;
  // Each cause keeps its own line, as in the message; other control characters are escaped.
  std::string lines;
  for (const std::string& line : split(all, '\n'))
    lines += (lines.empty() ? "" : "\n    ") + printable(line);
  return lines;
}

void Problems::add(Origin origin, std::string path, std::string message, std::string hint,
                   uint32_t code) {
  Problem p{std::move(origin), std::move(path), std::move(message), std::move(hint), code};
  if (std::find(all_.begin(), all_.end(), p) == all_.end()) all_.push_back(std::move(p));
}

bool Problems::touch(std::string_view path) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Problem& p) {
    const std::string_view at = p.path;
    return at.starts_with(path) &&
           (at.size() == path.size() || at[path.size()] == '.' || at[path.size()] == '[');
  });
}

std::vector<Problem> Problems::sorted() const {
  std::vector<Problem> sorted = all_;
  const auto key = [](const Problem& p) {
    return std::tie(p.origin.file, p.origin.line, p.origin.column);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Problem& a, const Problem& b) { return key(a) < key(b); });
  return sorted;
}

std::string Problems::text() const {
  std::string all;
  std::vector<Problem> list = sorted();
  for (size_t i = 0; i < list.size(); ++i) {
    // What to do about several in a row is said behind the last of them.
    if (i + 1 < list.size() && list[i].hint == list[i + 1].hint) list[i].hint.clear();
    all += (all.empty() ? "" : "\n") + list[i].text();
  }
  return all;
}

std::string Problems::json() const {
  JsonWriter json;
  json.array();
  for (const Problem& p : sorted()) {
    json.object()
        .field("file", p.origin.file)
        .field("line", p.origin.line)
        .field("column", p.origin.column);
    json.field("path", p.path).field("message", p.message).field("hint", p.hint).end_object();
  }
  return json.end_array().text();
}

void Problems::raise() const {
  const std::string count =
      all_.size() == 1 ? "1 problem" : std::to_string(all_.size()) + " problems";
  const auto other = [&](const Problem& p) { return p.code != all_.front().code; };
  const bool mixed = all_.empty() || std::any_of(all_.begin(), all_.end(), other);
  fail(mixed ? static_cast<uint32_t>(PLAIT_ERR_CONFIG) : all_.front().code,
       "[config] " + count + " in the experiment:\n" + text());
}

}  // namespace plait::config

#include "engine/plugin/report.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"

namespace plait::plugin {
namespace {

size_t count_of_folder(std::span<const LoadEntry> entries, const LoadEntry& wanted) {
  return static_cast<size_t>(std::count_if(entries.begin(), entries.end(), [&](const LoadEntry& e) {
    return e.folder == wanted.folder;
  }));
}

bool is_first_of_folder(std::span<const LoadEntry> entries, size_t i) {
  return std::none_of(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(i),
                      [&](const LoadEntry& e) { return e.folder == entries[i].folder; });
}

}  // namespace

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kLoaded:
      return "loaded";
    case Outcome::kShadowed:
      return "shadowed";
    case Outcome::kForbidden:
      return "forbidden";
    case Outcome::kRejected:
      return "rejected";
    case Outcome::kAbsent:
      return "absent";
    case Outcome::kIgnored:
      return "ignored";
  }
  return "rejected";
}

std::string LoadReport::text() const {
  std::string all;
  for (const LoadEntry& entry : entries) {
    std::string line =
        strf("%-9s ", outcome_name(entry.outcome)) + entry.path + " (" + entry.source + ")";
    if (!entry.name.empty()) line += ": " + entry.name + " " + entry.version;
    if (!entry.reason.empty()) line += ": " + entry.reason;
    if (!entry.fix.empty()) line += "; " + entry.fix;
    all += printable(line) + "\n";
  }
  return all;
}

std::string LoadReport::json() const {
  JsonWriter json;
  json.array();
  for (const LoadEntry& entry : entries) {
    json.object()
        .field("path", entry.path)
        .field("source", entry.source)
        .field("outcome", outcome_name(entry.outcome));
    json.field("name", entry.name)
        .field("version", entry.version)
        .field("reason", entry.reason)
        .field("fix", entry.fix);
    json.texts("items", entry.items).end_object();
  }
  return json.end_array().text();
}

std::vector<std::string> LoadReport::folder_lines(size_t first) const {
  std::vector<std::string> lines;
  const std::span<const LoadEntry> tried = std::span(entries).subspan(first);
  for (size_t i = 0; i < tried.size(); ++i) {
    const LoadEntry& entry = tried[i];
    if (!entry.folder || !is_first_of_folder(tried, i)) continue;
    const size_t n = count_of_folder(tried, entry);
    lines.push_back(n == 1 ? "'" + entry.path + "': " + entry.reason + "; " + entry.fix
                           : std::to_string(n) + " plugins are not loaded: the folder '" +
                                 entry.folder->path + "' " + entry.folder->reason + "; " +
                                 entry.folder->fix);
  }
  return lines;
}

std::string LoadReport::summary() const {
  std::vector<std::string> rejected;
  for (size_t i = 0; i < entries.size(); ++i) {
    const LoadEntry& entry = entries[i];
    if (entry.outcome != Outcome::kRejected && entry.outcome != Outcome::kForbidden) continue;
    const size_t n = !entry.folder ? 1 : count_of_folder(entries, entry);
    if (n == 1)
      rejected.push_back((entry.name.empty() ? entry.path : entry.name) + " (" + entry.reason +
                         ")");
    else if (is_first_of_folder(entries, i))
      rejected.push_back(std::to_string(n) + " plugins (the folder '" + entry.folder->path + "' " +
                         entry.folder->reason + ")");
  }
  return rejected.empty() ? "" : "; plugins that could not be loaded: " + join(rejected);
}

}  // namespace plait::plugin

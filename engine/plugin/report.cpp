#include "engine/plugin/report.hpp"

#include "engine/base/json.hpp"
#include "engine/base/text.hpp"

namespace plait::plugin {

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

std::string LoadReport::summary() const {
  std::vector<std::string> rejected;
  for (const LoadEntry& entry : entries)
    if (entry.outcome == Outcome::kRejected || entry.outcome == Outcome::kForbidden)
      rejected.push_back((entry.name.empty() ? entry.path : entry.name) + " (" + entry.reason +
                         ")");
  return rejected.empty() ? "" : "; plugins that could not be loaded: " + join(rejected);
}

}  // namespace plait::plugin

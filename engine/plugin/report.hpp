// What became of every plugin file that was looked at: the load report.
#pragma once

#include <string>
#include <vector>

namespace plait::plugin {

enum class Outcome {
  kLoaded,
  kShadowed,   // one of that name was loaded before
  kForbidden,  // not in the list of allowed names
  kRejected,   // failed; see reason and fix
  kAbsent,     // nothing at that path
  kIgnored,    // a library in a searched folder that is no plugin
};
const char* outcome_name(Outcome outcome);

struct LoadEntry {
  std::string path;
  std::string source;  // see search.hpp
  Outcome outcome = Outcome::kRejected;
  std::string name, version;       // of the note, where it could be read
  std::string reason, fix;         // "" when loaded without a remark
  std::vector<std::string> items;  // "layer linear", ...
};

struct LoadReport {
  std::vector<LoadEntry> entries;  // in the order tried
  std::string text() const;        // one line each
  std::string json() const;
  // "; plugins that could not be loaded: c (reason)", the end of a message about what is missing; "" when there are none.
  std::string summary() const;
};

}  // namespace plait::plugin

// The load report: the outcome for every plugin file that was examined.
#pragma once

#include <string>
#include <vector>

namespace plait::plugin {

enum class Outcome {
  kLoaded,
  kShadowed,   // a plugin of the same name was loaded before
  kForbidden,  // not in the list of allowed names
  kRejected,   // failed; see reason and fix
  kAbsent,     // no file at that path
  kIgnored,    // a library in a searched folder that is not a plugin
};
const char* outcome_name(Outcome outcome);

struct LoadEntry {
  std::string path;
  std::string source;  // see search.hpp
  Outcome outcome = Outcome::kRejected;
  std::string name, version;       // of the note, where it could be read
  std::string reason, fix;         // "" if loaded without a warning
  std::vector<std::string> items;  // "layer linear", ...
  bool has_file = true;            // false: part of the program
};

struct LoadReport {
  std::vector<LoadEntry> entries;  // in the order tried
  std::string text() const;        // one line per entry
  std::string json() const;
  // The end of a message about a missing item: "; plugins that could not be loaded: c (reason)"; ""
  // if there are none.
  std::string summary() const;
};

}  // namespace plait::plugin

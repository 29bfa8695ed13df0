// The load report: the outcome for every plugin file that was examined.
#pragma once

#include <cstddef>
#include <optional>
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

// A folder whose permissions are the reason why no plugin below it is loaded.
struct FolderFault {
  std::string path;
  std::string reason, fix;  // as good for all plugins below it
  bool operator==(const FolderFault&) const = default;
};

struct LoadEntry {
  std::string path;
  std::string source;  // see search.hpp
  Outcome outcome = Outcome::kRejected;
  std::string name, version;                         // of the note, where it could be read
  std::string reason, fix;                           // "" if loaded without a warning
  std::vector<std::string> items;                    // "layer linear", ...
  bool has_file = true;                              // false: part of the program
  std::optional<FolderFault> folder = std::nullopt;  // the reason, where that is a folder
};

struct LoadReport {
  std::vector<LoadEntry> entries;  // in the order tried
  std::string text() const;        // one line per entry
  std::string json() const;
  // One line for each folder because of which several plugins were refused, and one for each plugin
  // that alone was; of the entries from `first` on that have a folder.
  std::vector<std::string> folder_lines(size_t first) const;
  // The end of a message about a missing item: "; plugins that could not be loaded: c (reason)"; ""
  // if there are none. Plugins that one folder is the reason for are counted.
  std::string summary() const;
};

}  // namespace plait::plugin

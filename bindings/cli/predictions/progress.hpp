// How far a command came that writes predictions, for a later one that continues: a small file
// beside the partial one (WholeFile::Part::kPartial) says what is predicted, and how many samples
// of it are in that file. A command that is killed at any time loses no more than the last batch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

struct Reached {
  int64_t samples = 0;  // that are in the partial file
  uint64_t bytes = 0;   // of the partial file; later ones belong to no sample yet
};

// Where the progress of `path` stands.
std::string progress_path(const std::string& path);

// What an earlier command left of `path`; no samples: nothing. subject: what this command
// predicts. Errors: CliError (kUsage) with the first difference when the earlier one predicted
// something else.
Reached left_of(const std::string& path, const Json& subject);

class Progress {
 public:
  // Whoever makes it has locked the partial file.
  Progress(const std::string& path, const Json& subject, const Reached& from);
  // Removes the file unless there is something to continue.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void reached(const Reached& now);
  void forget() { worth_ = false; }  // the predictions are where they belong

 private:
  void write(const std::string& text);
  std::string path_;
  int fd_ = -1;
  bool worth_ = false;
};

}  // namespace plait::cli

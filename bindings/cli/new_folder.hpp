// A new folder with the files of a command, which appears when they are complete.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "bindings/cli/context.hpp"

namespace plait::cli {

// A folder beside the place that it takes when it is complete. verb: in messages.
class NewFolder {
 public:
  NewFolder(std::string verb, std::string place)
      : verb_(std::move(verb)), place_(std::move(place)) {
    while (place_.size() > 1 && place_.ends_with('/')) place_.pop_back();
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(place_, ignored)))
      throw CliError(kUsage, "[" + verb_ + "] '" + place_ +
                                 "' exists; remove it, or name another folder with --to");
    const std::filesystem::path at(place_);
    hidden_ = (at.parent_path() / ("." + at.filename().string() + "." + verb_ + "-")).string() +
              std::to_string(getpid());
  }
  ~NewFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(hidden_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  const std::string& hidden() const { return hidden_; }
  // What lies at `path` in it, as it is called then.
  std::string later(const std::string& path) const {
    return path.starts_with(hidden_) ? place_ + path.substr(hidden_.size()) : path;
  }
  void finish() {
    std::error_code reason;
    std::filesystem::rename(hidden_, place_, reason);
    if (reason)
      throw CliError(kEnvironment, "[" + verb_ + "] '" + hidden_ + "' cannot become '" + place_ +
                                       "': " + reason.message());
  }

 private:
  std::string verb_, place_, hidden_;
};

}  // namespace plait::cli

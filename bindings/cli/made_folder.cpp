#include "bindings/cli/made_folder.hpp"

#include <system_error>

#include "bindings/cli/context.hpp"
#include "kit/obstacle.hpp"

namespace plait::cli {
namespace {

namespace fs = std::filesystem;

// Of a folder that is to be made with the ones above it, the one that comes first.
fs::path first_missing(const fs::path& folder) {
  std::error_code ignored;
  fs::path at = fs::absolute(folder, ignored).lexically_normal();
  if (!at.has_filename()) at = at.parent_path();  // behind a '/' at its end
  while (at.has_relative_path() && !fs::exists(fs::symlink_status(at.parent_path(), ignored)))
    at = at.parent_path();
  return at;
}

}  // namespace

void make_folders(const fs::path& folder, const std::string& part, const std::string& how) {
  std::error_code error;
  fs::create_directories(folder, error);
  // A trailing '/' or '.' is an error of create_directories() in some libraries.
  std::error_code ignored;
  if (!error || fs::is_directory(folder, ignored)) return;
  std::string why = kit::obstacle(first_missing(folder).string(), error.value());
  if (why.empty()) why = error.message() + "; " + kit::kAnotherPlace;
  throw CliError(kEnvironment, "[" + part + "] cannot make the folder '" + folder.string() +
                                   "': " + why + (how.empty() ? "" : ", " + how));
}

}  // namespace plait::cli

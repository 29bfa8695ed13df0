#include "bindings/cli/made_folder.hpp"

#include <system_error>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

namespace fs = std::filesystem;

// What is in the way, in the words of the engine's messages (engine/base/posix_read.cpp).
std::string obstacle(const fs::path& folder, const std::error_code& error) {
  std::error_code ignored;
  fs::path above = fs::absolute(folder, ignored).lexically_normal();
  while (!fs::exists(above, ignored) && above != above.parent_path()) above = above.parent_path();
  const std::string name = "'" + above.string() + "'";
  if (error == std::errc::read_only_file_system) return "the disk is read-only";
  if (!fs::is_directory(above, ignored)) return name + " is a file, not a folder";
  if (error == std::errc::permission_denied || error == std::errc::operation_not_permitted)
    return "you may not write in " + name;
  if (error == std::errc::no_such_file_or_directory) return name + " takes no new files";
  return error.message();
}

}  // namespace

void make_folders(const fs::path& folder, const std::string& part, const std::string& how) {
  std::error_code error;
  fs::create_directories(folder, error);
  // A trailing '/' or '.' is an error of create_directories() in some libraries.
  std::error_code ignored;
  if (!error || fs::is_directory(folder, ignored)) return;
  throw CliError(kEnvironment, "[" + part + "] cannot make the folder '" + folder.string() +
                                   "': " + obstacle(folder, error) + "; name another place" +
                                   (how.empty() ? "" : ", " + how));
}

}  // namespace plait::cli

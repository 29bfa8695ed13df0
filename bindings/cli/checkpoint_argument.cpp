#include "bindings/cli/checkpoint_argument.hpp"

#include <filesystem>

namespace plait::cli {

std::string checkpoint_of(const FileArguments& file, const std::string& given) {
  std::error_code ignored;
  // "best" is that of the run, where there is no such path.
  const std::string of_run = file.given + "/ckpt/" + given;
  if (!given.empty() && !std::filesystem::exists(given, ignored) &&
      given.find('/') == std::string::npos && std::filesystem::exists(of_run, ignored))
    return of_run;
  if (!given.empty()) return given;
  const bool has_weights = std::filesystem::is_directory(file.given + "/ckpt", ignored) ||
                           std::filesystem::exists(file.given + "/MANIFEST.json", ignored);
  return has_weights ? file.given : "";
}

std::string checkpoint_argument(const FileArguments& file, const std::string& given,
                                const std::string& verb) {
  if (std::string own = checkpoint_of(file, given); !own.empty()) return own;
  throw CliError(kUsage, "[cli] plait " + verb +
                             " needs --checkpoint DIR: a checkpoint, RUN/ckpt/best, or a run "
                             "directory; or a run directory as FILE; see plait " +
                             verb + " --help");
}

}  // namespace plait::cli

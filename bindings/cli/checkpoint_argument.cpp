#include "bindings/cli/checkpoint_argument.hpp"

#include <filesystem>

namespace plait::cli {

std::string checkpoint_argument(const FileArguments& file, const std::string& given,
                                const std::string& verb) {
  std::error_code ignored;
  if (!given.empty()) return given;
  if (std::filesystem::is_directory(file.given + "/ckpt", ignored)) return file.given;
  throw CliError(kUsage, "[cli] plait " + verb +
                             " needs --checkpoint DIR: a checkpoint, RUN/ckpt/best, or a run "
                             "directory; or a run directory as FILE; see plait " +
                             verb + " --help");
}

}  // namespace plait::cli

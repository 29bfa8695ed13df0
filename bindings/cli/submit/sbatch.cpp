#include "bindings/cli/submit/sbatch.hpp"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "bindings/cli/context.hpp"
#include "bindings/cli/launch/fd.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {
namespace {

CliError cannot(const std::string& what, int reason) {
  return {kEnvironment, "[submit] cannot " + what + ": " + std::generic_category().message(reason)};
}

// Memory that takes the output of a program.
Fd memory() {
  Fd file(memfd_create("sbatch", MFD_CLOEXEC));
  if (!file) throw cannot("make a file in memory", errno);
  return file;
}

std::string text_in(const Fd& file) {
  std::string text;
  char block[4096];
  ssize_t n = 0;
  while ((n = pread(file.get(), block, sizeof block, static_cast<off_t>(text.size()))) > 0)
    text.append(block, static_cast<size_t>(n));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace

void check_sbatch(const std::string& instead) {
  if (!is_on_path("sbatch"))
    throw CliError(
        kEnvironment,
        "[submit] there is no sbatch on the PATH, so no Slurm on this machine; " + instead);
}

namespace {

// Whether sbatch says that it has not reached Slurm, in the words of Slurm 20 to 25.
bool is_unreachable(const std::string& why) {
  for (const char* said : {"contact slurm controller", "establish a configuration source",
                           "failed to fetch config", "Zero Bytes were transmitted or received"})
    if (why.find(said) != why.npos) return true;
  return false;
}

}  // namespace

SubmittedJob sbatch(const std::string& script) {
  const Fd out = memory(), err = memory();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.get(), STDERR_FILENO);
  std::string name = "sbatch", option = "--parsable", file = script;
  char* argv[] = {name.data(), option.data(), file.data(), nullptr};
  pid_t child = 0;
  const int reason = posix_spawnp(&child, name.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (reason != 0) throw cannot("start sbatch", reason);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw cannot("wait for sbatch", errno);
  // "12" or "12;cluster".
  const std::string said = text_in(out), why = text_in(err);
  const std::string id = said.substr(0, said.find(';'));
  const bool number = !id.empty() && id.find_first_not_of("0123456789") == std::string::npos;
  const bool refused = !WIFEXITED(status) || WEXITSTATUS(status) != 0 || !number;
  if (refused && is_unreachable(why))
    throw CliError(kEnvironment, "[submit] sbatch does not reach Slurm; the script stays in " +
                                     script + ": run sbatch where squeue lists jobs\n" + why);
  if (refused)
    throw CliError(kFailed,
                   "[submit] sbatch did not take the job (" +
                       (WIFEXITED(status) ? strf("exit code %d", WEXITSTATUS(status))
                                          : strf("signal %d", WTERMSIG(status))) +
                       "); the script stays in " + script +
                       ": edit it and run sbatch, or change the options" +
                       (why.empty() && said.empty() ? "" : "\n" + (why.empty() ? said : why)));
  const size_t at = said.find(';');
  return {id, at == std::string::npos ? "" : said.substr(at + 1), why};
}

}  // namespace plait::cli

#include "bindings/cli/sweep/pool.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "bindings/cli/context.hpp"
#include "bindings/cli/interrupt.hpp"
#include "bindings/cli/launch/cores.hpp"

namespace plait::cli {
namespace {

// Blocks the signals that the pool waits for, and has SIGCHLD wake it. Ignored signals stay
// ignored: nohup ignores SIGHUP.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&all_);
    for (const int s : kStopSignals) {
      struct sigaction now {};
      if (sigaction(s, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&all_, s);
    }
    sigaddset(&all_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &all_, &before_);
    struct sigaction normal {};
    normal.sa_handler =
        SIG_DFL;  // a parent may have left it ignored, and then nothing can be waited for
    sigaction(SIGCHLD, &normal, &child_before_);
  }
  ~BlockedSignals() {
    sigaction(SIGCHLD, &child_before_, nullptr);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  int wait() const {
    int signal = 0;
    sigwait(&all_, &signal);
    return signal;
  }
  const sigset_t& before() const { return before_; }

 private:
  sigset_t all_{}, before_{};
  struct sigaction child_before_ {};
};

// In the child: only functions that are safe behind a fork.
[[noreturn]] void execute(const std::vector<char*>& argv, const char* log,
                          const std::vector<int>& cores, const sigset_t& mask, pid_t parent) {
  setpgid(0, 0);  // a terminal's ^C reaches the pool alone, which passes it on
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  const int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (out < 0 || in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(127);
  bind_to(cores);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execv("/proc/self/exe", argv.data());
  _exit(127);
}

pid_t start(const PoolJob& job, const std::vector<int>& cores, const sigset_t& mask) {
  std::vector<char*> argv;
  for (const std::string& word : job.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::error_code unmade;
  std::filesystem::create_directories(std::filesystem::path(job.log).parent_path(), unmade);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) execute(argv, job.log.c_str(), cores, mask, parent);
  return child;
}

// asked: the pool has asked it to stop. One that had nothing to save yet is then ended by the
// signal, or has said so by its code.
PoolEnd end_of(size_t job, int status, bool asked) {
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return {job, code, asked && (code == kInterrupted || code == 128 + SIGTERM)};
}

}  // namespace

int run_pool(const std::vector<PoolJob>& jobs, size_t at_once,
             const std::function<void(const PoolEnd&)>& on_end) {
  const std::vector<int> cores = allowed_cores();
  const BlockedSignals signals;
  struct Running {
    size_t job, place;
  };
  std::map<pid_t, Running> running;
  std::set<size_t> free;  // places: each has a part of the cores
  for (size_t place = 0; place < at_once; ++place) free.insert(place);
  size_t next = 0;
  int stopped_by = 0, error = 0;
  const auto may_start = [&] { return next < jobs.size() && stopped_by == 0 && error == 0; };
  const auto send = [&](int signal) {
    for (const auto& [pid, job] : running) kill(pid, signal);
  };
  while (!running.empty() || may_start()) {
    while (may_start() && !free.empty()) {
      const size_t place = *free.begin();
      const pid_t pid = start(
          jobs[next], partition_cores(cores, static_cast<int>(place), static_cast<int>(at_once)),
          signals.before());
      if (pid < 0) {
        error = errno;
        send(SIGTERM);
      } else {
        free.erase(place);
        running[pid] = {next++, place};
      }
    }
    if (running.empty()) break;
    if (const int signal = signals.wait(); signal != SIGCHLD) {
      send(stopped_by == 0 ? SIGTERM : SIGKILL);
      stopped_by = signal;
    }
    for (auto at = running.begin(); at != running.end();) {
      int status = 0;
      const pid_t ended = waitpid(at->first, &status, WNOHANG);
      if (ended == 0 || (ended < 0 && errno == EINTR)) {
        ++at;
        continue;
      }
      free.insert(at->second.place);
      on_end(end_of(at->second.job, status, stopped_by != 0 || error != 0));
      at = running.erase(at);
    }
  }
  if (error != 0)
    throw CliError(kEnvironment, std::string("[cli] a run cannot be started: ") +
                                     std::strerror(error) + "; use fewer with --jobs");
  return stopped_by;
}

}  // namespace plait::cli

#include "bindings/cli/launch/workers.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <system_error>

#include "bindings/cli/interrupt.hpp"
#include "bindings/cli/launch/cores.hpp"
#include "bindings/cli/launch/fd.hpp"
#include "bindings/cli/launch/line_reader.hpp"

namespace plait::cli {
namespace {

constexpr double kNever = HUGE_VAL;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// Incoming signals as a descriptor; the destructor restores the previous state.
class Signals {
 public:
  Signals() {
    sigset_t waited;
    sigemptyset(&waited);
    sigaddset(&waited, SIGCHLD);
    for (const int signal : kStopSignals) {
      struct sigaction now = {};
      sigaction(signal, nullptr, &now);
      if (now.sa_handler != SIG_IGN) sigaddset(&waited, signal);  // nohup ignores SIGHUP
    }
    struct sigaction normal = {};
    normal.sa_handler = SIG_DFL;  // if SIGCHLD is ignored, exit statuses are lost
    sigaction(SIGCHLD, &normal, &child_before_);
    sigprocmask(SIG_BLOCK, &waited, &before_);
    fd_ = Fd(signalfd(-1, &waited, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) fail("cannot wait for signals");
  }
  ~Signals() {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    sigaction(SIGCHLD, &child_before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }
  // The next pending signal, or 0.
  int next() const {
    signalfd_siginfo info;
    return read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                              : 0;
  }

 private:
  Fd fd_;
  sigset_t before_;
  struct sigaction child_before_ = {};
};

// Runs in the new process before exec: system calls only, because it may not allocate.
[[noreturn]] void become(const Worker& worker, pid_t launcher, int output, const sigset_t& mask,
                         char** command, char** environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(127);  // the launcher died before prctl() took effect
  setpgid(0, 0);
  bind_to(worker.cores);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);  // a terminal stops a background group that reads
  if (nothing > STDERR_FILENO) close(nothing);
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  }
  for (const int fd : worker.inherit) fcntl(fd, F_SETFD, 0);
  signal(SIGTTOU, SIG_IGN);  // so that worker 0 may write to a terminal set to tostop
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execve(worker.program.c_str(), command, environment);
  constexpr char kText[] = "cannot execute the program of a worker\n";
  if (write(STDERR_FILENO, kText, sizeof kText - 1) < 0) _exit(126);
  _exit(127);
}

class Watch {
 public:
  Watch(const std::vector<Worker>& workers, const WatchSettings& settings)
      : workers_(workers), settings_(settings) {
    result_.exits.resize(workers.size());
    running_.resize(workers.size());
    outputs_.resize(workers.size());
    if (settings.reports >= 0)
      reports_ = std::make_unique<LineReader>(settings.reports, [this](std::string_view line) {
        settings_.on_report(line);
        settled_at_ = monotonic_seconds() + settings_.settle;
      });
  }
  ~Watch() { kill_all(SIGKILL), reap(true); }
  WatchResult run();

 private:
  struct Running {
    pid_t id = 0;        // 0: not started, or reaped
    bool ended = false;  // by a signal of ours other than one that was forwarded
  };
  void start(size_t which);
  size_t alive() const;
  void kill_all(int signal);
  void reap(bool wait);
  void on_end(size_t which, const siginfo_t& info);
  void on_signal(int signal);
  void on_time();
  void on_settled();
  void pass_output(bool all);
  int milliseconds() const;

  const std::vector<Worker>& workers_;
  const WatchSettings& settings_;
  Signals signals_;
  std::vector<Running> running_;
  struct Output {
    Fd fd;
    std::unique_ptr<LineReader> lines;
  };
  std::vector<Output> outputs_;
  std::unique_ptr<LineReader> reports_;
  double terminate_at_ = kNever, kill_at_ = kNever, settled_at_ = kNever;
  WatchResult result_;
};

void Watch::start(size_t which) {
  const Worker& worker = workers_[which];
  Fd ours, theirs;
  if (which > 0) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("cannot make a pipe");
    ours = Fd(ends[0]), theirs = Fd(ends[1]);
    const std::string prefix = "[rank " + std::to_string(which) + "] ";
    outputs_[which].lines =
        std::make_unique<LineReader>(ours.get(), [this, prefix](std::string_view line) {
          if (settings_.relay) settings_.relay(prefix + std::string(line));
        });
    outputs_[which].fd = std::move(ours);
  }
  std::vector<char*> command = pointers(worker.command), environment = pointers(worker.environment);
  const pid_t launcher = getpid(), id = fork();
  if (id < 0) fail("cannot start a process");
  if (id == 0)
    become(worker, launcher, theirs.get(), signals_.before(), command.data(), environment.data());
  setpgid(id, id);  // both processes call it; the first one wins
  running_[which].id = id;
}

size_t Watch::alive() const {
  return static_cast<size_t>(
      std::count_if(running_.begin(), running_.end(), [](const Running& r) { return r.id != 0; }));
}

void Watch::kill_all(int signal) {
  for (Running& r : running_)
    if (r.id != 0) {
      r.ended = true;
      if (kill(-r.id, signal) != 0) kill(r.id, signal);
    }
}

void Watch::reap(bool wait) {
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i].id == 0) continue;
    siginfo_t info = {};
    // WNOWAIT leaves a zombie, so its id is not reused before the rest of its group is killed.
    const int how = WEXITED | WNOWAIT | (wait ? 0 : WNOHANG);
    while (waitid(P_PID, static_cast<id_t>(running_[i].id), &info, how) != 0 && errno == EINTR) {
    }
    if (info.si_pid == 0) continue;
    kill(-running_[i].id, SIGKILL);
    while (waitpid(running_[i].id, nullptr, 0) < 0 && errno == EINTR) {
    }
    on_end(i, info);
  }
}

void Watch::on_end(size_t which, const siginfo_t& info) {
  ProcessExit& e = result_.exits[which];
  const bool exited = info.si_code == CLD_EXITED;
  e.signal = exited ? 0 : info.si_status;
  e.code = exited ? info.si_status : 128 + info.si_status;
  e.ended = running_[which].ended;
  e.seconds = monotonic_seconds();
  running_[which].id = 0;
  // What it reported before it ended, but after the reports were read last.
  if (reports_) reports_->read();
  if (e.code == 0 || result_.signal != 0) return;
  // Interrupted without a signal of ours: all workers were asked to stop, so the others exit, too.
  if (e.code == settings_.interrupted)
    kill_at_ = std::min(kill_at_, e.seconds + settings_.grace);
  else if (terminate_at_ == kNever && kill_at_ == kNever)
    terminate_at_ =
        e.seconds + (settings_.is_silent && settings_.is_silent(which) ? settings_.silent_linger
                                                                       : settings_.linger);
}

void Watch::on_signal(int signal) {
  if (result_.signal != 0) {
    result_.second_signal = true;
    kill_all(SIGKILL);
    return;
  }
  result_.signal = signal;
  // Workers save and exit on each of them; whoever reads of it later knows these two.
  result_.forwarded_signal = signal == SIGINT ? SIGINT : SIGTERM;
  for (const Running& r : running_)
    if (r.id != 0) kill(r.id, result_.forwarded_signal);
  terminate_at_ = kNever;
  kill_at_ = monotonic_seconds() + settings_.grace;
}

void Watch::on_time() {
  const double now = monotonic_seconds();
  if (now >= settled_at_) on_settled();
  if (now >= terminate_at_) {
    kill_all(SIGTERM);
    terminate_at_ = kNever;
    kill_at_ = now + settings_.kill_delay;
  }
  if (now >= kill_at_) {
    kill_all(SIGKILL);
    kill_at_ = kNever;
  }
}

void Watch::on_settled() {
  settled_at_ = kNever;
  if (settings_.on_settled) settings_.on_settled();
}

void Watch::pass_output(bool all) {
  for (Output& output : outputs_)
    if (output.lines && (!output.lines->read() || all)) {
      output.lines->finish();
      output.lines.reset();
      output.fd.close();
    }
  if (reports_) reports_->read();
}

int Watch::milliseconds() const {
  const double left = std::min({terminate_at_, kill_at_, settled_at_}) - monotonic_seconds();
  return left == kNever ? -1 : static_cast<int>(std::clamp(left * 1000 + 1, 0.0, 1e6));
}

WatchResult Watch::run() {
  for (size_t i = 0; i < workers_.size(); ++i) start(i);
  if (settings_.on_started) settings_.on_started();
  while (alive() > 0) {
    std::vector<pollfd> waited = {{signals_.fd(), POLLIN, 0}};
    for (const Output& output : outputs_)
      if (output.lines) waited.push_back({output.fd.get(), POLLIN, 0});
    if (reports_) waited.push_back({settings_.reports, POLLIN, 0});
    if (poll(waited.data(), waited.size(), milliseconds()) < 0 && errno != EINTR)
      fail("cannot wait for workers");
    pass_output(false);
    while (const int signal = signals_.next())
      if (signal != SIGCHLD) on_signal(signal);
    reap(false);
    on_time();
  }
  pass_output(true);
  on_settled();
  return std::move(result_);
}

}  // namespace

double monotonic_seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

WatchResult watch(const std::vector<Worker>& workers, const WatchSettings& settings) {
  return Watch(workers, settings).run();
}

}  // namespace plait::cli

#include "bindings/cli/launch/local.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <plait/base.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "bindings/cli/context.hpp"
#include "bindings/cli/launch/cores.hpp"
#include "bindings/cli/launch/fd.hpp"

extern char** environ;

namespace plait::cli {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw CliError(kEnvironment, "[launch] cannot " + what + ": " + strerror(errno));
}

std::string random_bytes(size_t n) {
  std::string bytes(n, '\0');
  if (getrandom(bytes.data(), n, 0) != static_cast<ssize_t>(n)) fail("get random bytes");
  return bytes;
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += strf("%02x", static_cast<unsigned>(static_cast<uint8_t>(c)));
  return text;
}

// An unnamed file, visible only to processes that inherit it. It is written once.
Fd secret_file() {
  Fd file(memfd_create("plait-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail("make a file in memory");
  std::string secret = random_bytes(32);
  const bool written =
      write(file.get(), secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
  explicit_bzero(secret.data(), secret.size());
  if (!written ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    fail("write a file in memory");
  return file;
}

// A loopback socket and its port.
struct Port {
  Fd socket;
  int number = 0;
};
Port local_port() {
  Port port{Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), 0};
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  if (!port.socket || bind(port.socket.get(), general, size) != 0 ||
      getsockname(port.socket.get(), general, &size) != 0)
    fail("get a port of 127.0.0.1");
  port.number = ntohs(address.sin_port);
  return port;
}

using Variables = std::vector<std::pair<std::string, std::string>>;

// Our environment with the variables of `set`; those set to "" are removed.
std::vector<std::string> environment_with(const Variables& set) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('='));
    if (std::none_of(set.begin(), set.end(), [&](const auto& s) { return s.first == name; }))
      all.emplace_back(text);
  }
  for (const auto& [name, value] : set)
    if (!value.empty()) all.push_back(name + "=" + value);
  return all;
}

// Common to all ranks of the job.
struct Rendezvous {
  Port port = local_port();
  Fd secret = secret_file();
  int other_port = local_port().number;  // free a moment ago: for scripts that open a port
  std::string id = hex(random_bytes(8));
  Fd reports, report_to;
};

Variables variables_of(int rank, const LocalJob& job, const Rendezvous& rendezvous, size_t cores) {
  const std::string r = std::to_string(rank), n = std::to_string(job.ranks);
  Variables all = {{"PLAIT_RANK", r},
                   {"PLAIT_WORLD_SIZE", n},
                   {"PLAIT_LOCAL_RANK", r},
                   {"PLAIT_LOCAL_WORLD_SIZE", n},
                   {"PLAIT_RENDEZVOUS", "127.0.0.1:" + std::to_string(rendezvous.port.number)},
                   {"PLAIT_SECRET_FD", std::to_string(rendezvous.secret.get())},
                   {"PLAIT_SECRET_FILE", ""},
                   {"PLAIT_LISTEN_FD", rank ? "" : std::to_string(rendezvous.port.socket.get())},
                   {"PLAIT_ERROR_FD", std::to_string(rendezvous.report_to.get())},
                   // The variables of torchrun, for scripts that read them.
                   {"RANK", r},
                   {"LOCAL_RANK", r},
                   {"WORLD_SIZE", n},
                   {"LOCAL_WORLD_SIZE", n},
                   {"GROUP_RANK", "0"},
                   {"GROUP_WORLD_SIZE", "1"},
                   {"ROLE_RANK", r},
                   {"ROLE_NAME", "default"},
                   {"ROLE_WORLD_SIZE", n},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", std::to_string(rendezvous.other_port)},
                   {"TORCHELASTIC_RUN_ID", rendezvous.id},
                   {"TORCHELASTIC_RESTART_COUNT", std::to_string(job.restart)},
                   {"TORCHELASTIC_MAX_RESTARTS", std::to_string(job.most_restarts)},
                   {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                   {"TORCHELASTIC_ERROR_FILE", ""}};
  if (!getenv("OMP_NUM_THREADS")) all.emplace_back("OMP_NUM_THREADS", std::to_string(cores));
  return all;
}

// By path, so that `ps` shows it; through /proc if the file at that path has been removed or
// replaced.
std::string own_program() {
  std::error_code fault;
  const std::string path = std::filesystem::read_symlink("/proc/self/exe", fault);
  return !fault && std::filesystem::equivalent(path, "/proc/self/exe", fault) ? path
                                                                              : "/proc/self/exe";
}

std::vector<Worker> workers_of(const LocalJob& job, const Rendezvous& rendezvous) {
  const std::vector<int> cores = allowed_cores();
  const std::string program = own_program();
  std::vector<Worker> workers;
  for (int rank = 0; rank < job.ranks; ++rank) {
    Worker worker;
    worker.program = program;
    worker.command = job.command;
    worker.cores = partition_cores(cores, rank, job.ranks);
    worker.environment = environment_with(
        variables_of(rank, job, rendezvous, std::max<size_t>(1, worker.cores.size())));
    worker.inherit = {rendezvous.secret.get(), rendezvous.report_to.get()};
    if (rank == 0) worker.inherit.push_back(rendezvous.port.socket.get());
    workers.push_back(std::move(worker));
  }
  return workers;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + cores_text(ranks);
}

std::string exit_text(const ProcessExit& e) {
  if (e.signal) return strf("it was killed by signal %d (%s)", e.signal, strsignal(e.signal));
  return strf("it exited with code %d", e.code);
}

// Ordered by the time of the failure report, else of the exit; ranks that only reported another
// rank's failure, or that we terminated, come last.
int first_failed(const WatchResult& result, const std::vector<FailureReport>& reports,
                 const std::vector<int>& failed) {
  const auto order = [&](int rank) {
    const ProcessExit& e = result.exits[static_cast<size_t>(rank)];
    int doubt = e.ended ? 2 : 0;
    double when = e.seconds;
    for (const FailureReport& r : reports)
      if (r.rank == rank) doubt = r.secondary() ? 1 : 0, when = std::min(when, r.seconds);
    return std::pair(doubt, when);
  };
  return *std::min_element(failed.begin(), failed.end(),
                           [&](int a, int b) { return order(a) < order(b); });
}

// Every rank failed for the same reason, so none was the first.
bool all_alike(const WatchResult& result, const std::vector<FailureReport>& reports) {
  if (reports.size() != result.exits.size()) return false;
  return std::all_of(reports.begin(), reports.end(), [&](const FailureReport& r) {
    return !r.secondary() && r.code == reports[0].code &&
           (r.text == reports[0].text || (r.shared && reports[0].shared));
  });
}

// Why ranks that were asked to stop did not save.
std::string unsaved_text(const WatchResult& result, const std::vector<int>& unsaved,
                         const LocalJob& job) {
  if (!job.saves) return strf(" ended: signal %d asked for it", result.signal);
  if (result.second_signal) return " ended at once, without saving: a second signal arrived";
  for (const int rank : unsaved)
    if (result.exits[static_cast<size_t>(rank)].ended)
      return strf(" did not save within %g s and were killed; --grace SECONDS gives more time",
                  job.grace);
  return " ended before there was anything to save";
}

std::string failure_text(const WatchResult& result, const std::vector<FailureReport>& reports,
                         int rank) {
  const bool alone = result.exits.size() == 1;
  std::string text = alone ? "[launch] the process failed: "
                           : "[launch] rank " + std::to_string(rank) + " failed first: ";
  for (const FailureReport& r : reports)
    if (r.rank == rank) return text + r.text.substr(0, r.text.find('\n'));
  text += exit_text(result.exits[static_cast<size_t>(rank)]);
  return alone ? text : text + "; the other ranks failed as a consequence";
}

// Whether the failure of a rank may be gone when it is started again.
bool may_pass(const WatchResult& result, const std::vector<FailureReport>& reports, int rank) {
  constexpr uint32_t kPassing[] = {PLAIT_ERR_PEER, PLAIT_ERR_IO, PLAIT_ERR_MEMORY,
                                   PLAIT_ERR_DEVICE};
  if (result.signal) return false;  // the user ends the job
  for (const FailureReport& r : reports)
    if (r.rank == rank)
      return std::find(std::begin(kPassing), std::end(kPassing), r.code) != std::end(kPassing);
  return result.exits[static_cast<size_t>(rank)].signal != 0;
}

}  // namespace

JobOutcome find_root_cause(const WatchResult& result, const std::vector<FailureReport>& reports,
                           const LocalJob& job) {
  std::vector<int> failed, saved, unsaved;
  for (size_t i = 0; i < result.exits.size(); ++i) {
    const ProcessExit& e = result.exits[i];
    // A rank that does not handle signals yet is ended by the forwarded one, as requested; one
    // that does then loses it.
    const bool lost = std::any_of(reports.begin(), reports.end(), [&](const FailureReport& r) {
      return r.rank == static_cast<int>(i) && r.secondary();
    });
    const bool asked = result.signal && (e.ended || e.signal == result.forwarded_signal || lost);
    if (e.code == kInterrupted)
      saved.push_back(static_cast<int>(i));
    else if (e.code != 0)
      (asked ? unsaved : failed).push_back(static_cast<int>(i));
  }
  if (failed.size() > 1 && all_alike(result, reports))
    return {result.exits[0].code, -1,
            strf("[launch] all %zu ranks failed, for the same reason", failed.size()),
            may_pass(result, reports, 0)};
  if (!failed.empty()) {
    const int first = first_failed(result, reports, failed);
    return {result.exits[static_cast<size_t>(first)].code, first,
            failure_text(result, reports, first), may_pass(result, reports, first)};
  }
  if (!unsaved.empty()) {
    JobOutcome outcome{128 + result.signal, -1,
                       "[launch] " + ranks_text(unsaved) + unsaved_text(result, unsaved, job)};
    const auto was_killed = [&](int i) { return result.exits[static_cast<size_t>(i)].ended; };
    outcome.unsaved =
        !result.second_signal && std::none_of(unsaved.begin(), unsaved.end(), was_killed);
    return outcome;
  }
  return {saved.empty() ? kOk : kInterrupted, -1, ""};
}

JobOutcome run_local(const LocalJob& job) {
  Rendezvous rendezvous;
  if (listen(rendezvous.port.socket.get(), SOMAXCONN) != 0) fail("listen on 127.0.0.1");
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) fail("make a pipe");
  rendezvous.reports = Fd(pipe_fds[0]), rendezvous.report_to = Fd(pipe_fds[1]);
  Reports reports;
  WatchSettings settings;
  settings.grace = job.grace;
  settings.interrupted = kInterrupted;
  settings.relay = job.relay;
  settings.reports = rendezvous.reports.get();
  settings.on_report = [&](std::string_view line) {
    if (const FailureReport* failure = reports.add(line)) job.print(*failure);
  };
  settings.on_settled = [&] {
    for (const FailureReport& failure : reports.take_untold()) job.print(failure);
  };
  settings.is_silent = [&](size_t worker) { return reports.is_silent(worker); };
  settings.on_started = [&] {  // after rank 0 has exited, its port must refuse connections
    rendezvous.port.socket.close();
    rendezvous.secret.close();
  };
  try {
    const WatchResult result = watch(workers_of(job, rendezvous), settings);
    if (const FailureReport* failure = reports.untold_shared()) job.print(*failure);
    JobOutcome outcome = find_root_cause(result, reports.failures(), job);
    outcome.run_dir = reports.run_dir();
    return outcome;
  } catch (const std::system_error& e) {
    throw CliError(kEnvironment, std::string("[launch] ") + e.what());
  }
}

}  // namespace plait::cli

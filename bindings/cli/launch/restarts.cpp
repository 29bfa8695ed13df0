#include "bindings/cli/launch/restarts.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/help/usage.hpp"
#include "bindings/cli/interrupt.hpp"
#include "bindings/cli/runs/newest_checkpoint.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {
namespace {

constexpr int64_t kFirstWait = 1, kLongestWait = 60;  // seconds

int64_t wait_before(int64_t restart) {
  return restart > 6 ? kLongestWait : std::min(kFirstWait << (restart - 1), kLongestWait);
}

// A log of the run that is not its own: without it the run continues all the same.
void record(const std::string& run_dir, const Json& restart) {
  if (run_dir.empty() || !is_run(run_dir)) return;
  std::ofstream(run_dir + "/" + kRestarts, std::ios::app)
      << restart.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

std::string from_text(const std::string& run_dir) {
  if (run_dir.empty()) return "by the same command: the run directory is not known yet";
  // Also one that a rank which was killed had no time to name in status.json.
  const std::string checkpoint = newest_checkpoint(run_dir);
  return checkpoint.empty() ? "from the beginning: there is no checkpoint yet"
                            : "from " + checkpoint;
}

// The signals that ask a job to stop, kept back while it exists. Ignored ones stay ignored.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int signal : kStopSignals) {
      struct sigaction now = {};
      if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaddset(&held_, signal);
    }
    sigprocmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  // The signal that came within this time; 0: none.
  int wait(int64_t seconds) const {
    const timespec time = {static_cast<time_t>(seconds), 0};
    int signal = -1;
    do signal = sigtimedwait(&held_, nullptr, &time);
    while (signal < 0 && errno == EINTR);
    return std::max(signal, 0);
  }

 private:
  sigset_t held_, before_;
};

// A job that was asked to stop before its new start had done anything: what the starts before have
// saved is there.
JobOutcome stopped(const std::string& run_dir, JobOutcome outcome, Terminal& terminal) {
  if (!run_dir.empty()) note_state(run_dir, "interrupted");
  const std::string checkpoint = run_dir.empty() ? "" : newest_checkpoint(run_dir);
  if (checkpoint.empty()) return outcome;
  const std::string command =
      "plait run " + path_word(run_dir) + " --run-dir " + path_word(run_dir) + " --resume must";
  const std::string text =
      "[launch] a signal ended the job before its restart had made a step; its newest checkpoint "
      "is " +
      checkpoint;
  terminal.record(
      {{"event", "interrupted"}, {"run_dir", run_dir}, {"message", text}, {"resume", command}});
  terminal.notice(text + "\nto resume: " + command);
  return {kInterrupted, -1, ""};
}

}  // namespace

std::vector<std::string> resuming(std::vector<std::string> words, const std::string& run_dir) {
  const auto given = [](const std::string& word, const std::string& option) {
    return word == option ? 2 : word.starts_with(option + "=") ? 1 : 0;  // words
  };
  const size_t verb = word_at(words, 1);
  for (size_t i = verb + 1; i < words.size() && words[i] != "--";) {
    const auto n = std::max(given(words[i], "--run-dir"), given(words[i], "--resume"));
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
    if (n == 0)
      ++i;
    else
      words.erase(at, at + std::min<std::ptrdiff_t>(n, words.end() - at));
  }
  if (verb < words.size())
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(verb) + 1,
                 {"--run-dir=" + run_dir, "--resume=auto"});
  return words;
}

JobOutcome run_with_restarts(LocalJob& job, int64_t most, Terminal& terminal) {
  const std::vector<std::string> words = job.command;
  std::string run_dir;
  job.most_restarts = most;
  for (job.restart = 0;; ++job.restart) {
    JobOutcome outcome = run_local(job);
    if (!outcome.run_dir.empty()) run_dir = outcome.run_dir;
    const HeldSignals signals;
    if (outcome.unsaved && job.restart > 0) return stopped(run_dir, outcome, terminal);
    if (outcome.text.empty() || !outcome.may_pass || job.restart == most) {
      if (job.restart > 0 && !outcome.text.empty())
        outcome.text += strf("; it had been restarted %lld time%s",
                             static_cast<long long>(job.restart), job.restart == 1 ? "" : "s");
      return outcome;
    }
    const int64_t next = job.restart + 1, wait = wait_before(next);
    const Json restart = {
        {"schema", 1},
        {"event", "restart"},
        {"time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
                     .count()},
        {"restart", next},
        {"of", most},
        {"run_dir", run_dir},
        {"reason", outcome.text}};
    record(run_dir, restart);
    terminal.record(restart);
    terminal.notice(outcome.text +
                    strf("\nrestart %lld of %lld in %lld s, ", static_cast<long long>(next),
                         static_cast<long long>(most), static_cast<long long>(wait)) +
                    from_text(run_dir));
    if (const int signal = signals.wait(wait))
      return stopped(
          run_dir,
          {128 + signal, -1, "[launch] a signal ended the job while it waited for its restart"},
          terminal);
    if (!run_dir.empty()) job.command = resuming(words, run_dir);
  }
}

}  // namespace plait::cli

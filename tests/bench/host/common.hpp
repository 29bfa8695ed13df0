// Code shared by the host programs: arguments, an opened experiment, rounds on request.
#pragma once

#include <sys/resource.h>
#include <plait/plait.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU time of this process, all threads.
inline double cpu_seconds() {
  rusage use;
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// EXPERIMENT.toml [--data FOLDER] [--seconds S] [--steps N] [--mode NAME] [key.path=value ...]
struct Arguments {
  std::string experiment, data, mode;
  double seconds = 2;
  int steps = 500;
  std::vector<std::string> overrides;

  Arguments(int count, char** values) {
    for (int i = 1; i < count; ++i) {
      const std::string a = values[i];
      const auto next = [&] { return i + 1 < count ? values[++i] : (usage(a), ""); };
      if (a == "--data")
        data = next();
      else if (a == "--seconds")
        seconds = std::atof(next());
      else if (a == "--steps")
        steps = std::atoi(next());
      else if (a == "--mode")
        mode = next();
      else if (a.find('=') != std::string::npos)
        overrides.push_back(a);
      else if (experiment.empty() && a[0] != '-')
        experiment = a;
      else
        usage(a);
    }
    if (experiment.empty()) usage("nothing");
  }

 private:
  [[noreturn]] static void usage(const std::string& found) {
    std::fprintf(stderr,
                 "[bench] unexpected argument or missing value at '%s'; expected: EXPERIMENT.toml "
                 "[--data FOLDER] "
                 "[--seconds S] [--steps N] [--mode NAME] [key=value ...]\n",
                 found.c_str());
    std::exit(2);
  }
};

inline plait::EngineSettings settings(const Arguments& a) {
  setenv("PLAIT_BIND", "all", 0);  // as the command line does
  plait::EngineSettings s;
  s.data_folder = a.data;
  s.log_level = PLAIT_LOG_WARN;
  s.log = [](uint32_t, std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  };
  return s;
}

struct Rate {
  double per_second, cpus;  // cpus: CPU time over wall time
};

// How often per second run(n) performs one of its n repetitions, over about `seconds`; the first
// calls determine n.
template <class Run>
Rate rate_of(Run&& run, double seconds) {
  long n = 1;
  double elapsed = 0;
  for (;; n *= 2) {
    const double start = now();
    run(n);
    elapsed = now() - start;
    if (elapsed >= seconds / 10) break;
  }
  n = std::max(1L, static_cast<long>(static_cast<double>(n) * seconds / elapsed));
  const double start = now(), cpu = cpu_seconds();
  run(n);
  elapsed = now() - start;
  return {static_cast<double>(n) / elapsed, (cpu_seconds() - cpu) / elapsed};
}

// The greatest resident memory of this process so far, MiB.
inline double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::atof(line.c_str() + 6) / 1024;
  throw std::runtime_error("[bench] /proc/self/status has no VmHWM; this figure needs Linux");
}

// Prints that it is ready, with more members of that object, then calls round() for every line on
// stdin.
template <class Round>
void rounds_on_input(const std::string& members, Round&& round) {
  std::printf("{\"ready\": true%s}\n", members.c_str());
  std::fflush(stdout);
  for (int c; (c = std::getchar()) != EOF;) {
    if (c != '\n') continue;
    round();
    std::fflush(stdout);
  }
}

// The rest of main() of every program: errors become a line and an exit code.
template <class Body>
int guarded(Body&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

}  // namespace bench

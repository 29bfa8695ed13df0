// The launcher alone, for launch_test.py: launch_probe GRACE LINGER FAREWELL COMMAND...
//
// Starts one `/bin/sh -c COMMAND` per argument; in its environment WORKER is its number and REPORTS
// a descriptor for reports. Prints the outcome of each as one line of JSON on stdout.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bindings/cli/launch/cores.hpp"
#include "bindings/cli/launch/local.hpp"

using namespace plait::cli;

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return 2;
  WatchSettings settings;
  settings.grace = std::atof(argv[1]);
  settings.linger = std::atof(argv[2]);
  settings.kill_delay = std::atof(argv[3]);
  settings.relay = [](std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  Reports reports;
  settings.reports = ends[0];
  settings.on_report = [&](std::string_view line) { reports.add(line); };
  settings.on_settled = [&] {
    for (const FailureReport& failure : reports.take_untold())
      std::fprintf(stderr, "untold of %d: %s\n", failure.rank, failure.text.c_str());
  };
  settings.is_silent = [&](size_t worker) { return reports.is_silent(worker); };
  settings.on_started = [] { std::fprintf(stderr, "started\n"); };
  std::vector<Worker> workers;
  const std::vector<int> cores = allowed_cores();
  for (int i = 4; i < argc; ++i) {
    Worker w;
    w.program = "/bin/sh";
    w.command = {"sh", "-c", argv[i]};
    w.environment = {"PATH=/usr/bin:/bin", "WORKER=" + std::to_string(i - 4),
                     "REPORTS=" + std::to_string(ends[1])};
    w.inherit = {ends[1]};
    w.cores = partition_cores(cores, i - 4, argc - 4);
    workers.push_back(w);
  }
  const WatchResult result = watch(workers, settings);
  if (const FailureReport* failure = reports.untold_shared())
    std::fprintf(stderr, "untold of all: %s\n", failure->text.c_str());
  LocalJob job;
  job.grace = settings.grace;
  const JobOutcome outcome = find_root_cause(result, reports.failures(), job);
  nlohmann::ordered_json codes = nlohmann::ordered_json::array();
  for (const ProcessExit& e : result.exits) codes.push_back(e.code);
  const nlohmann::ordered_json all = {{"codes", codes},
                                      {"code", outcome.code},
                                      {"rank", outcome.rank},
                                      {"text", outcome.text},
                                      {"signal", result.signal}};
  std::printf("%s\n", all.dump().c_str());
  return outcome.code;
}

// What observing a run costs: steps of plait_session_run() and of plait_session_step(), in turn in
// one session; the latter write nothing. Where memory lies changes the time of a step by several
// percent from process to process; within a session it stays where it is.
//   --mode nothing   (default) plait_session_run() writes nothing either
//   --mode observed  it writes all files, and the bar on a terminal. A window is shorter than the 5
//   seconds between two states in status.json (about 0.1 ms of processor time each)
#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "common.hpp"
#include "pseudo_terminal.hpp"

namespace {

using bench::Arguments;

struct Cost {
  double wall = 0, cpu = 0;  // seconds of a step; cpu: of all threads
};

// Steps of one kind: a few that do not count, then those of some seconds.
class Window {
 public:
  explicit Window(double seconds) : seconds_(seconds) {}
  // Called after each step. Returns whether it was the last one.
  bool ended() {
    constexpr long kWarm = 200;
    if (++steps_ < kWarm) return false;
    if (steps_ == kWarm) {
      cpu_ = bench::cpu_seconds();
      start_ = bench::now();
      return false;
    }
    const double elapsed = bench::now() - start_;
    if (elapsed < seconds_) return false;
    const auto n = static_cast<double>(steps_ - kWarm);
    cost_ = {elapsed / n, (bench::cpu_seconds() - cpu_) / n};
    return true;
  }
  Cost cost() const { return cost_; }

 private:
  const double seconds_;
  long steps_ = 0;
  double start_ = 0, cpu_ = 0;
  Cost cost_;
};

class Compared {
 public:
  // run_dir "": no files, no bar.
  Compared(const Arguments& a, const std::string& run_dir)
      : seconds_(a.seconds),
        engine_(bench::settings(a)),
        plan_(plait::Experiment::read(engine_, a.experiment, a.overrides)),
        session_(plan_, settings(run_dir)) {
    // Event records are written of each of the first 1,000 steps, then less often (tensorboard).
    constexpr int64_t kOftenWritten = 1200;
    while (last_step_ < kOftenWritten) run();
  }

  // Short windows in turn: the speed of a machine changes by more than observing costs from one
  // second to the next.
  void round() {
    constexpr int kPairs = 12;
    std::vector<Cost> of_runs, of_steps;
    for (int i = 0; i < kPairs; ++i) {
      const bool run_first = i % 2 == 0;
      if (run_first) of_runs.push_back(run());
      of_steps.push_back(step());
      if (!run_first) of_runs.push_back(run());
    }
    const Cost of_run = median(of_runs), of_step = median(of_steps);
    std::printf(R"({"run_us": %.6g, "run_cpu_us": %.6g, "step_us": %.6g, "step_cpu_us": %.6g})",
                1e6 * of_run.wall, 1e6 * of_run.cpu, 1e6 * of_step.wall, 1e6 * of_step.cpu);
    std::putchar('\n');
  }

 private:
  plait::SessionSettings settings(const std::string& run_dir) {
    plait::SessionSettings s;
    s.no_files = run_dir.empty();
    s.run_dir = run_dir;
    s.progress = !run_dir.empty();
    s.on_step = [this](const plait_step_result& r) {
      last_step_ = r.step;
      return window_->ended();
    };
    return s;
  }

  static Cost median(const std::vector<Cost>& all) {
    const auto of = [&](double Cost::*part) {
      std::vector<double> values;
      for (const Cost& c : all) values.push_back(c.*part);
      std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
      return values[values.size() / 2];
    };
    return {of(&Cost::wall), of(&Cost::cpu)};
  }

  // It is stopped by its callback, and saves behind the steps that count.
  Cost run() {
    window_.emplace(seconds_);
    try {
      session_.run();
    } catch (const plait::HostError& e) {
      if (e.code() != PLAIT_ERR_CANCELLED) throw;
    }
    return window_->cost();
  }

  Cost step() {
    window_.emplace(seconds_);
    do session_.step();
    while (!window_->ended());
    return window_->cost();
  }

  const double seconds_;
  std::optional<Window> window_;
  int64_t last_step_ = 0;
  plait::Engine engine_;
  plait::Plan plan_;
  plait::Session session_;
};

void compare(const Arguments& a, const std::string& run_dir) {
  Compared compared(a, run_dir);
  bench::rounds_on_input("", [&] { compared.round(); });
}

void observed(const Arguments& a) {
  char folder[] = "/tmp/plait_bench_XXXXXX";
  if (!mkdtemp(folder)) throw std::runtime_error("[bench] no folder can be made in /tmp");
  {
    const bench::PseudoTerminal terminal(STDERR_FILENO);
    compare(a, std::string(folder) + "/run");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int count, char** values) {
  return bench::guarded([&] {
    const Arguments a(count, values);
    a.mode == "observed" ? observed(a) : compare(a, "");
  });
}

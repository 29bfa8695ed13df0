// Steps per second of an experiment, or its result.
//   --mode loader    (default) batches come from [data.train]; one round for every line on stdin
//   --mode fed       the host feeds views of 60,000 preloaded samples of 784 numbers, like the
//   PyTorch peer
//   --mode accuracy  runs to the end, evaluates on [data.eval], prints one line
//   --mode run       rounds, as of the loader, of plait_session_run(), which writes nothing
//   --mode observed  the same with all that tells of a run: its files, and the bar on a terminal
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>

#include "common.hpp"
#include "pseudo_terminal.hpp"

namespace {

using bench::Arguments;

class Opened {
 public:
  explicit Opened(const Arguments& a)
      : engine_(bench::settings(a)),
        plan_(plait::Experiment::read(engine_, a.experiment, a.overrides)),
        session(plan_, no_files()) {}
  // What a session takes on its device, bytes: as planned, and as it says.
  std::string memory() const {
    const auto planned = nlohmann::json::parse(plan_.describe()).at("memory").at("arena");
    const auto used = nlohmann::json::parse(session.describe()).at("arena_bytes");
    return ", \"planned\": " + planned.dump() + ", \"used\": " + used.dump();
  }

 private:
  static plait::SessionSettings no_files() {
    plait::SessionSettings s;
    s.no_files = true;
    return s;
  }
  plait::Engine engine_;
  plait::Plan plan_;

 public:
  plait::Session session;
};

template <class Step>
void time_rounds(const Arguments& a, const Opened& opened, Step&& step) {
  plait_step_result last{};
  const auto run = [&](long n) {
    for (long i = 0; i < n; ++i) last = step();
  };
  const double start = bench::now();  // to warm up: 20 steps, of a large model fewer
  for (int i = 0; i < 20 && (i < 2 || bench::now() - start < a.seconds); ++i) run(1);
  bench::rounds_on_input(opened.memory(), [&] {
    const bench::Rate r = bench::rate_of(run, a.seconds);
    std::printf(R"({"steps_per_s": %.5g, "cpus": %.2f, "loss": %.5f, "peak_mib": %.1f})",
                r.per_second, r.cpus, last.loss, bench::peak_mib());
    std::putchar('\n');
  });
}

void fed(const Arguments& a) {
  constexpr int64_t kSamples = 60000, kFeatures = 784, kBatch = 32;
  std::mt19937 random(1);
  std::vector<float> x(kSamples * kFeatures);
  std::vector<int32_t> label(kSamples);
  for (float& v : x) v = static_cast<float>(random() >> 8) * 0x1p-24f;
  for (int32_t& v : label) v = static_cast<int32_t>(random() % 10);
  Opened opened(a);
  int64_t at = 0;
  time_rounds(a, opened, [&] {
    const plait::Feed feeds[] = {
        {"x",
         std::span<const float>(&x[static_cast<size_t>(at * kFeatures)], kBatch * kFeatures),
         {kBatch, kFeatures}},
        {"label", std::span<const int32_t>(&label[static_cast<size_t>(at)], kBatch), {kBatch}}};
    at = (at + kBatch) % kSamples;
    return opened.session.step(feeds);
  });
}

void accuracy(const Arguments& a) {
  Opened opened(a);
  const double start = bench::now();
  const plait_step_result last = opened.session.run();
  std::printf(R"({"steps": %ld, "last_loss": %.5f, "seconds": %.3f, "evaluation": %s})",
              static_cast<long>(last.step), last.loss, bench::now() - start,
              opened.session.evaluate("eval").c_str());
  std::putchar('\n');
}

// Rounds inside of plait_session_run(): its callback counts the steps, and waits between rounds.
class RunRounds {
 public:
  RunRounds(const Arguments& a, bool observed) : seconds_(a.seconds) {
    std::optional<bench::PseudoTerminal> terminal;
    char folder[] = "/tmp/plait_bench_XXXXXX";
    if (observed) {
      if (!mkdtemp(folder)) throw std::runtime_error("[bench] no folder can be made in /tmp");
      terminal.emplace(STDERR_FILENO);
    }
    run(a, observed ? std::string(folder) + "/run" : "");
    if (observed) std::filesystem::remove_all(folder);
  }

 private:
  // run_dir "": no files, no bar.
  void run(const Arguments& a, const std::string& run_dir) {
    const plait::Engine engine(bench::settings(a));
    const plait::Plan plan(plait::Experiment::read(engine, a.experiment, a.overrides));
    plait::SessionSettings settings;
    settings.no_files = run_dir.empty();
    settings.run_dir = run_dir;
    settings.progress = !run_dir.empty();
    settings.on_step = [this](const plait_step_result& r) { return on_step(r); };
    plait::Session session(plan, std::move(settings));
    try {
      session.run();
    } catch (const plait::HostError& e) {
      if (e.code() != PLAIT_ERR_CANCELLED) throw;
    }
  }

  // Returns whether the run is to end.
  bool on_step(const plait_step_result& r) {
    // Event records are written of each of the first 1,000 steps, then less often (tensorboard).
    constexpr long kWarm = 1200;
    if (r.step < kWarm) return false;
    if (r.step == kWarm) {
      std::printf("{\"ready\": true}\n");
      return !next_round();
    }
    ++steps_;
    const double elapsed = bench::now() - start_;
    if (elapsed < seconds_) return false;
    std::printf(R"({"steps_per_s": %.6g, "cpus": %.4f, "loss": %.5f})",
                static_cast<double>(steps_) / elapsed, (bench::cpu_seconds() - cpu_) / elapsed,
                r.loss);
    std::putchar('\n');
    return !next_round();
  }

  bool next_round() {
    std::fflush(stdout);
    if (std::getchar() == EOF) return false;
    steps_ = 0;
    cpu_ = bench::cpu_seconds();
    start_ = bench::now();
    return true;
  }

  const double seconds_;
  long steps_ = 0;
  double start_ = 0, cpu_ = 0;
};

}  // namespace

int main(int count, char** values) {
  return bench::guarded([&] {
    const Arguments a(count, values);
    if (a.mode == "accuracy") return accuracy(a);
    if (a.mode == "fed") return fed(a);
    if (a.mode == "run" || a.mode == "observed") {
      RunRounds(a, a.mode == "observed");
      return;
    }
    Opened opened(a);
    time_rounds(a, opened, [&] { return opened.session.step(); });
  });
}

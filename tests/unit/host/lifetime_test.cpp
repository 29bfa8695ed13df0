// Engines are created and destroyed in a process that continues: they leave nothing behind and do
// not change the host's state. Two engines work at the same time.
#include <signal.h>

#include <cfenv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/descriptors.hpp"
#include "tests/support/own_threads.hpp"
#include "tests/unit/host/host.hpp"

using host::Run;
using host::small;

namespace {

// Names of shared memory, but for those of a browser and of the emulated NCCL, which tests beside
// this one use.
size_t shared_memory() {
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename().string();
    n += !name.starts_with(".org.chromium.") && !name.starts_with("plait-nccl-");
  }
  return n;
}

int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  return 0;
}

// The parts of a process that an engine could leave behind or change.
struct Footprint {
  size_t files = plait::test::open_descriptors().size(),
         threads = plait::test::own_threads().size(), shared = shared_memory();
  int64_t resident = resident_kib();
};

struct HostState {
  struct sigaction handlers[NSIG] = {};
  sigset_t blocked;
  fenv_t floating;
  char folder[4096];
  HostState() {
    for (int s = 1; s < NSIG; ++s) sigaction(s, nullptr, &handlers[s]);
    sigemptyset(&blocked);
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    fegetenv(&floating);
    REQUIRE(getcwd(folder, sizeof folder) != nullptr);
  }
  void check_same() const {
    const HostState now;
    for (int s = 1; s < NSIG; ++s) {
      CAPTURE(s);
      CHECK((now.handlers[s].sa_handler == handlers[s].sa_handler));
      CHECK(now.handlers[s].sa_flags == handlers[s].sa_flags);
      CHECK(sigismember(&now.blocked, s) == sigismember(&blocked, s));
    }
    CHECK(fegetround() == FE_TONEAREST);
#if defined(__x86_64__)
    CHECK(now.floating.__mxcsr == floating.__mxcsr);
    CHECK(now.floating.__control_word == floating.__control_word);
#endif
    CHECK(std::strcmp(now.folder, folder) == 0);
  }
};

// An engine that loads the code of its plugins anew each time, as a naive host would. run_dir "":
// no files.
void cycle(const std::string& run_dir) {
  plait_engine* engine = nullptr;
  host::check(plait_engine_open(nullptr, &engine));
  plait_experiment* x = nullptr;
  const std::string toml = small("[data.eval]\ntype = \"synthetic\"\nsamples = 33\n");
  host::check(plait_experiment_parse(engine, toml.c_str(), PLAIT_NTS, "t", nullptr, &x));
  plait_plan* p = nullptr;
  host::check(plait_plan_make(x, &p));
  plait_session_options o{};
  o.struct_size = sizeof o;
  o.run_dir = run_dir.empty() ? nullptr : run_dir.c_str();
  o.no_files = run_dir.empty() ? 1 : 0;
  plait_session* s = nullptr;
  host::check(plait_session_open(p, &o, &s));
  host::check(plait_session_run(s, nullptr));
  plait_session_close(s);
  plait_plan_close(p);
  plait_experiment_close(x);
  plait_engine_close(engine);
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Sanitizers keep freed memory, and forget the symbols of unloaded code.
constexpr int kCycles = 10;
constexpr int64_t kGrowth = 1 << 20;
#else
constexpr int kCycles = 100;
constexpr int64_t kGrowth = 1024;
#endif

TEST_CASE(
    "100 engines in one process leave no file, thread or memory behind, and the host as it was") {
  const host::TempFolder folder;
  for (int i = 0; i < 5; ++i) cycle(folder / ("warm" + std::to_string(i)));
  const HostState host;
  const Footprint before;
  for (int i = 0; i < kCycles; ++i)  // most of the time is spent on syncing files
    cycle(i % 5 == 0 ? folder / ("run" + std::to_string(i)) : "");
  const Footprint after;
  CHECK(after.files == before.files);
  CHECK(after.threads == before.threads);
  CHECK(after.shared == before.shared);
  CHECK(after.resident - before.resident < kGrowth);
  host.check_same();
}

TEST_CASE("two engines step at the same time, each as if it were alone") {
  const auto alone = Run(small()).losses(60);
  const auto other = Run(small(), "", PLAIT_RESUME_NEVER, {"run.seed=9"}).losses(60);
  for (int round = 0; round < 3; ++round) {
    std::vector<double> a, b;
    std::thread first([&] { a = Run(small()).losses(60); });
    std::thread second(
        [&] { b = Run(small(), "", PLAIT_RESUME_NEVER, {"run.seed=9"}).losses(60); });
    first.join();
    second.join();
    CHECK(a == alone);
    CHECK(b == other);
  }
}

TEST_CASE("two sessions of one plan step at the same time, each as if it were alone") {
  const Run run(small());
  plait_session_options o{};
  o.struct_size = sizeof o;
  o.no_files = 1;
  plait_session* sessions[2];
  for (plait_session*& s : sessions) host::check(plait_session_open(run.plan(), &o, &s));
  const auto alone = run.losses(60);
  std::vector<double> losses[2];
  auto steps = [&](int k) {
    for (int i = 0; i < 60; ++i) {
      plait_step_result r{};
      r.struct_size = sizeof r;
      host::check(plait_session_step(sessions[k], nullptr, 0, &r));
      losses[k].push_back(r.loss);
    }
  };
  std::thread first(steps, 0), second(steps, 1);
  first.join();
  second.join();
  for (int k = 0; k < 2; ++k) {
    CHECK(losses[k] == alone);
    plait_session_close(sessions[k]);
  }
}

// Counts the allocations of all steps after the first, in all threads: malloc and its family
// (operator new uses them) and mmap, which this program defines in front of glibc's. Runs with
// files (--mode files: through plait_session_run, metrics are written; --mode observed: the bar is
// drawn on a terminal, too, in some of these steps) or without (a loop of
// plait_session_step), or generates (--mode tokens). Prints one JSON line; the first callers go to
// stderr.
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include <plait/generate.hpp>

#include "common.hpp"
#include "pseudo_terminal.hpp"

namespace {

constexpr int kDepth = 12, kKept = 4;
std::atomic<bool> armed{false};
std::atomic<long> allocations{0}, frees{0}, maps{0};
void* stacks[kKept][kDepth];
int depths[kKept];

void count(std::atomic<long>& counter) noexcept {
  if (!armed.load(std::memory_order_relaxed)) return;
  const long n = counter.fetch_add(1);
  if (&counter == &frees || n >= kKept) return;
  armed = false;  // backtrace() itself must not be counted
  depths[n] = backtrace(stacks[n], kDepth);
  armed = true;
}

}  // namespace

extern "C" {
// The C library's own names. NOLINTBEGIN(bugprone-reserved-identifier)
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t n) { return count(allocations), __libc_malloc(n); }
void* calloc(size_t n, size_t size) { return count(allocations), __libc_calloc(n, size); }
void* realloc(void* p, size_t n) { return count(allocations), __libc_realloc(p, n); }
void* memalign(size_t align, size_t n) { return count(allocations), __libc_memalign(align, n); }
void* aligned_alloc(size_t align, size_t n) {
  return count(allocations), __libc_memalign(align, n);
}
int posix_memalign(void** out, size_t align, size_t n) {
  count(allocations);
  void* p = __libc_memalign(align, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
void free(void* p) {
  if (p) count(frees);
  __libc_free(p);
}
void* mmap(void* at, size_t n, int protection, int flags, int file, off_t offset) {
  count(maps);
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, n, protection, flags, file, offset));
}
}

namespace {

long page_faults() {
  rusage use;
  getrusage(RUSAGE_SELF, &use);
  return use.ru_minflt;
}

// Calls the function that runs the steps: arm() after the first, disarm() after the last.
struct Watch {
  long faults = 0;
  void arm() {
    faults = page_faults();
    armed = true;
  }
  void disarm() {
    armed = false;
    faults = page_faults() - faults;
  }
};

// The steps in which the bar is redrawn for certain: so many times the host waits for longer than
// the bar does between two lines.
constexpr int kRedrawn = 3;
constexpr std::chrono::milliseconds kWait{120};

void with_files(const plait::Plan& plan, int steps, Watch& watch, bool bar) {
  char folder[] = "/tmp/plait_bench_XXXXXX";
  if (!mkdtemp(folder)) throw std::runtime_error("[bench] no folder can be made in /tmp");
  {
    std::optional<bench::PseudoTerminal> terminal;
    if (bar) {
      setenv("TERM", "xterm", 1);  // a "dumb" one has no bar
      terminal.emplace(STDERR_FILENO);
    }
    plait::SessionSettings settings;
    settings.run_dir = std::string(folder) + "/run";
    settings.progress = bar;
    settings.on_step = [&](const plait_step_result& r) {
      if (r.step == 1) watch.arm();
      if (r.step == steps) watch.disarm();
      if (bar && r.step < steps && r.step <= kRedrawn) std::this_thread::sleep_for(kWait);
      return false;
    };
    plait::Session(plan, std::move(settings)).run();
    const int drawn = bar ? terminal->end() : 0;
    if (bar && drawn < 2 + std::min(kRedrawn, steps - 1))  // also at the first step and the end
      throw std::runtime_error("[bench] the bar was drawn " + std::to_string(drawn) + " times");
  }
  std::filesystem::remove_all(folder);
}

void without_files(const plait::Plan& plan, int steps, Watch& watch) {
  plait::SessionSettings settings;
  settings.no_files = true;
  plait::Session session(plan, std::move(settings));
  session.step();
  watch.arm();
  for (int i = 1; i < steps; ++i) session.step();
  watch.disarm();
}

// Token ids; a sequence in each slot. The first step has the prompts.
void tokens(const plait::Plan& plan, int steps, Watch& watch) {
  plait::SessionSettings settings;
  settings.no_files = true;
  plait::Session session(plan, std::move(settings));
  plait::Generator generator(session);
  const int32_t ids[] = {1, 2, 3};
  for (int s = 0; s < 2; ++s) generator.add(std::span<const int32_t>(ids));
  const std::function<bool(const plait_token&)> nothing = [](const plait_token&) { return true; };
  generator.step(nothing);
  watch.arm();
  for (int i = 1; i < steps; ++i) generator.step(nothing);
  watch.disarm();
}

}  // namespace

int main(int count, char** values) {
  return bench::guarded([&] {
    bench::Arguments a(count, values);
    void* warm[1];
    backtrace(warm, 1);  // loads the unwinder, which allocates
    a.overrides.push_back("run.steps=" + std::to_string(a.steps));
    const plait::Engine engine(bench::settings(a));
    const plait::Plan plan(plait::Experiment::read(engine, a.experiment, a.overrides));
    Watch watch;
    if (a.mode == "tokens")
      tokens(plan, a.steps, watch);
    else if (a.mode == "files" || a.mode == "observed")
      with_files(plan, a.steps, watch, a.mode == "observed");
    else
      without_files(plan, a.steps, watch);
    std::printf(R"({"files": %s, "steps": %d, "allocations": %ld, "frees": %ld, )"
                R"("mmaps": %ld, "page_faults": %ld})",
                a.mode == "files" || a.mode == "observed" ? "true" : "false", a.steps - 1,
                allocations.load(), frees.load(), maps.load(), watch.faults);
    std::putchar('\n');
    for (int i = 0; i < std::min<long>(kKept, allocations + maps); ++i) {
      std::fprintf(stderr, "[bench] allocation %d in a step:\n", i + 1);
      backtrace_symbols_fd(stacks[i] + 1, std::max(0, depths[i] - 1), 2);
    }
  });
}

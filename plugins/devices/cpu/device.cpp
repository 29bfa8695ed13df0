#include "plugins/devices/cpu/device.hpp"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "plugins/devices/cpu/matmul/matmul.hpp"
#include "plugins/devices/cpu/thread_limit.hpp"

namespace plait::cpu {
namespace {

constexpr int64_t kMostThreads = 1024;

constexpr plait_option kOptions[] = {
    at_most(
        at_least(opt_int("threads", "0",
                         "compute threads; 0: one per core this process may use, and one in all "
                         "while other processes keep these cores busy and that is faster"),
                 0),
        kMostThreads),
    opt_choice(
        "bind", "\"auto\"", "auto|none|workers|all",
        "bind compute threads to cores of their own: none, the workers, or also the thread "
        "that runs the programs, whose cores are restored when the session closes; auto: all "
        "in a program that sets PLAIT_BIND, as `plait` does, else none"),
    at_least(opt_int("first_core", "-1",
                     "index of the first core to bind to, among the process's cores; -1: bind "
                     "only if all of them are used"),
             -1),
    opt_bool("huge_pages", "true", "request huge pages for blocks of 4 MiB and more")};

// The process in which threads have computed.
std::atomic<pid_t> computed_in{0};

// After fork() the threads of OpenMP's pool are missing in the child, and its first parallel region
// would wait for them for ever.
void check_fork() {
  const pid_t process = computed_in.load();
  if (process != 0 && process != getpid())
    fail(PLAIT_ERR_STATE,
         "[cpu] process " + std::to_string(getpid()) + " was forked from process " +
             std::to_string(process) +
             ", which has computed: its compute threads are missing here; fork before the first "
             "session is opened, or execute a new program in the child");
}

// Threads of a host belong to the host: without its word nothing is bound.
Bind bind_of(const Options& o) {
  std::string bind(o.text("bind"));
  if (bind == "auto") {
    const char* asked = std::getenv("PLAIT_BIND");
    bind = asked ? asked : "none";
  }
  return bind == "all" ? Bind::kAll : bind == "workers" ? Bind::kWorkers : Bind::kNothing;
}

// What the option asks for, or all allowed cores.
int64_t wanted_threads(const Options& o) {
  const int64_t n = o.integer("threads");
  return n > 0 ? std::min(n, kMostThreads) : static_cast<int64_t>(allowed_cores().size());
}

std::string count_of_threads(int64_t n) {
  return std::to_string(n) + (n == 1 ? " thread" : " threads");
}

// Of the device's `threads`: whether there are fewer than wanted, and why.
std::string limit_of(const Options& o, int64_t threads) {
  const int64_t wanted = wanted_threads(o);
  if (threads == wanted) return "";
  return " (OMP_THREAD_LIMIT allows no more, expected " + std::to_string(wanted) + ")";
}

const char* isa_name(Isa isa) {
  return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "no avx2";
}

}  // namespace

std::span<const plait_option> CpuDevice::options() { return kOptions; }

// No region gets more threads than OpenMP's limit.
uint32_t CpuDevice::threads(const Options& o) {
  return static_cast<uint32_t>(std::min<int64_t>(wanted_threads(o), omp_get_thread_limit()));
}

CpuDevice::CpuDevice(const Host& host, const Options& o)
    : threads_(threads(o)),
      backs_off_(o.integer("threads") == 0 && threads_ > 1),
      memory_(o.flag("huge_pages")),
      binding_(static_cast<int>(threads_), o.integer("first_core"), bind_of(o)) {
  check_fork();
  check_thread_limit(static_cast<int>(threads_));
  computed_in.store(getpid());
  const std::string limit = limit_of(o, threads_);
  summary_ = count_of_threads(threads_) + limit + ", " + isa_name(machine_isa()) + ", " +
             binding_.summary();
  if (!limit.empty() && o.integer("threads") > 0)
    host.log(PLAIT_LOG_WARN, "[cpu] the device computes on " + count_of_threads(threads_) + limit +
                                 "; raise or unset OMP_THREAD_LIMIT in the environment");
}

void CpuDevice::info(plait_device_info& out) const {
  out.host_visible = 1;
  out.threads = threads_;
  out.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                     static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  out.summary = summary_.c_str();
}

}  // namespace plait::cpu

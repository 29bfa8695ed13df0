#include "plugins/devices/cpu/threads.hpp"

#include <dirent.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "plugins/devices/cpu/parallel.hpp"

namespace plait::cpu {
namespace {

// Adds the cores of one thread of this process (0: the caller) to `all`.
void join_cores(pid_t thread, cpu_set_t& all) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(thread, sizeof(set), &set) == 0) CPU_OR(&all, &all, &set);
}

// A refusal costs only speed.
void bind_self(int core) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

// The cores that bound threads of the host had before the first device bound them. Of the whole
// process, as a thread may run the programs of several devices.
class CallerCores {
 public:
  // The caller is about to be bound. False: its cores are unknown, leave it as it is.
  static bool enter(pid_t thread) noexcept try {
    const std::lock_guard lock(mutex());
    Entry& entry = entries()[thread];
    if (entry.devices == 0 && sched_getaffinity(0, sizeof(entry.before), &entry.before) != 0) {
      entries().erase(thread);
      return false;
    }
    ++entry.devices;
    return true;
  } catch (...) {  // no memory for the entry
    return false;
  }
  // True: no other device binds the thread any more, which gets `before` back.
  static bool leave(pid_t thread, cpu_set_t& before) noexcept {
    const std::lock_guard lock(mutex());
    const auto at = entries().find(thread);
    if (at == entries().end() || --at->second.devices > 0) return false;
    before = at->second.before;
    entries().erase(at);
    return true;
  }

 private:
  struct Entry {
    cpu_set_t before{};
    int devices = 0;
  };
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  static std::map<pid_t, Entry>& entries() {
    static std::map<pid_t, Entry> all;
    return all;
  }
};

}  // namespace

std::vector<int> allowed_cores() {
  cpu_set_t all;
  CPU_ZERO(&all);
  join_cores(0, all);
  if (DIR* threads = opendir("/proc/self/task")) {
    while (const dirent* entry = readdir(threads))
      if (const int id = std::atoi(entry->d_name); id > 0) join_cores(id, all);
    closedir(threads);
  }
  std::vector<int> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &all)) cores.push_back(i);
  if (cores.empty()) cores.push_back(0);
  return cores;
}

Binding::Binding(int threads, int64_t first_core, Bind bind) : caller_(bind == Bind::kAll) {
  const bool workers = bind != Bind::kNothing;
  const std::vector<int> allowed = allowed_cores();
  const auto n = std::max<int64_t>(1, static_cast<int64_t>(allowed.size()));
  const bool whole = threads == n && n > 1;
  active_ = workers && (first_core >= 0 || whole) && threads <= n;
  first_core = std::max<int64_t>(first_core, 0);
  for (int64_t i = 0; i < threads; ++i)
    cores_.push_back(allowed[static_cast<size_t>((first_core + i) % n)]);
}

void Binding::leave() noexcept {
  const pid_t self = gettid();
  for (Bound& b : bound_) {
    if (!b.thread.load(std::memory_order_relaxed)) continue;
    cpu_set_t before;
    if (b.id && CallerCores::leave(b.id, before)) {
      sched_setaffinity(b.id, sizeof(before), &before);
      const int pool = b.id == self ? grow_pool(static_cast<int>(cores_.size())) : 1;
#pragma omp parallel num_threads(pool) if (pool > 1)
      if (omp_get_thread_num() > 0) sched_setaffinity(0, sizeof(before), &before);
    }
    b.id = 0;
    b.thread.store({}, std::memory_order_relaxed);
  }
  count_.store(0, std::memory_order_relaxed);
}

void Binding::enter_slow() noexcept {
  const pthread_t self = pthread_self();
  for (const Bound& b : bound_)
    if (b.thread.load(std::memory_order_relaxed) == self) return;
  const size_t slot = count_.fetch_add(1, std::memory_order_relaxed);
  if (slot >= bound_.size()) {
    count_.store(bound_.size(), std::memory_order_relaxed);
    return;
  }
  Bound& own = bound_[slot];
  own.thread.store(self, std::memory_order_relaxed);
  if (caller_ && CallerCores::enter(gettid())) own.id = gettid();
  const int* cores = cores_.data();
  const bool caller = own.id != 0;
  const size_t own_cores = cores_.size();
#pragma omp parallel num_threads(grow_pool(static_cast <int>(own_cores)))
  {
    const auto i =
        static_cast<size_t>(omp_get_thread_num());  // another device may have more threads
    if (i < own_cores && (i > 0 || caller)) bind_self(cores[i]);
  }
}

}  // namespace plait::cpu

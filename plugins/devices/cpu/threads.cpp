#include "plugins/devices/cpu/threads.hpp"

#include <dirent.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

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

Binding::Binding(int threads, int64_t first_core, bool workers, bool caller)
    : caller_(workers && caller) {
  const std::vector<int> allowed = allowed_cores();
  const auto n = std::max<int64_t>(1, static_cast<int64_t>(allowed.size()));
  const bool whole = threads == n && n > 1;
  active_ = workers && (first_core >= 0 || whole) && threads <= n;
  first_core = std::max<int64_t>(first_core, 0);
  for (int64_t i = 0; i < threads; ++i)
    cores_.push_back(allowed[static_cast<size_t>((first_core + i) % n)]);
}

Binding::~Binding() {
  if (!caller_) return;
  for (const Bound& b : bound_)
    if (b.id) sched_setaffinity(b.id, sizeof(b.before), &b.before);
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
  cpu_set_t before;
  if (caller_ && sched_getaffinity(0, sizeof(before), &before) == 0) {
    own.before = before;
    own.id = gettid();
  }
  const int* cores = cores_.data();
  const bool caller = own.id != 0;
#pragma omp parallel num_threads(cores_.size())
  {
    const int i = omp_get_thread_num();
    if (i > 0 || caller) bind_self(cores[i]);
  }
}

}  // namespace plait::cpu

#include "plugins/devices/cpu/threads.hpp"

#include <omp.h>
#include <sched.h>

#include <algorithm>

namespace plait::cpu {
namespace {

void bind_self(int core) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);  // a refusal costs speed, not results
}

}  // namespace

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) cores.push_back(i);
  if (cores.empty()) cores.push_back(0);
  return cores;
}

Binding::Binding(int threads, int64_t first_core, bool workers, bool caller) : caller_(caller) {
  const std::vector<int> allowed = allowed_cores();
  const auto n = std::max<int64_t>(1, static_cast<int64_t>(allowed.size()));
  const bool whole = threads == n;
  active_ = ((workers && threads > 1) || caller) && (first_core >= 0 || whole) && threads <= n;
  if (first_core < 0) first_core = 0;
  for (int64_t i = 0; i < threads; ++i)
    cores_.push_back(allowed[static_cast<size_t>((first_core + i) % n)]);
}

void Binding::enter_slow() noexcept {
  const pthread_t self = pthread_self();
  for (auto& s : seen_)
    if (s.load(std::memory_order_relaxed) == self) return;
  const int* cores = cores_.data();
  const bool caller = caller_;
#pragma omp parallel num_threads(cores_.size())
  {
    const int i = omp_get_thread_num();
    if (i > 0 || caller) bind_self(cores[i]);
  }
  for (size_t i = std::size(seen_); i-- > 1;)
    seen_[i].store(seen_[i - 1].load(std::memory_order_relaxed), std::memory_order_relaxed);
  seen_[0].store(self, std::memory_order_relaxed);
}

}  // namespace plait::cpu

#include "engine/base/thread.hpp"

#include <dirent.h>
#include <sched.h>

#include <cstdlib>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "kit/thread.hpp"

namespace plait {

void with_threads(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::system_error& e) {
    fail_io("[base] cannot start a thread (limits: ulimit -u and -v)", e.code().value());
  }
}

std::thread start_thread(std::function<void()> work) {
  std::thread thread;
  with_threads([&] { thread = kit::start_thread(std::move(work)); });
  return thread;
}

void unbind_thread() noexcept {
  cpu_set_t all, one;
  CPU_ZERO(&all);
  DIR* threads = opendir("/proc/self/task");
  if (!threads) return;
  while (const dirent* entry = readdir(threads)) {
    const int id = std::atoi(entry->d_name);
    CPU_ZERO(&one);
    if (id > 0 && sched_getaffinity(id, sizeof one, &one) == 0) CPU_OR(&all, &all, &one);
  }
  closedir(threads);
  // if refused, only speed suffers
  if (CPU_COUNT(&all) > 0) sched_setaffinity(0, sizeof all, &all);
}

void run_on_threads(int64_t n, const std::function<void(int64_t)>& f) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(n));
  const auto run = [&](int64_t i) noexcept {
    try {
      f(i);
    } catch (...) {
      errors[static_cast<size_t>(i)] = std::current_exception();
    }
  };
  std::vector<std::thread> workers;
  const auto join = [&] {
    for (std::thread& w : workers) w.join();
  };
  workers.reserve(static_cast<size_t>(n));
  try {
    for (int64_t i = 1; i < n; ++i)
      workers.push_back(start_thread([&run, i] {
        unbind_thread();  // the caller may be bound to one core
        run(i);
      }));
  } catch (...) {
    join();
    throw;
  }
  run(0);
  join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace plait

#include "engine/base/thread.hpp"

#include <dirent.h>
#include <sched.h>

#include <cstdlib>
#include <system_error>
#include <utility>

#include "engine/base/error.hpp"
#include "kit/thread.hpp"

namespace plait {

std::thread start_thread(std::function<void()> work) {
  try {
    return kit::start_thread(std::move(work));
  } catch (const std::system_error& e) {
    fail_io("[base] cannot start a thread", e.code().value());
  }
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

}  // namespace plait

#include "plugins/devices/cpu/thread_limit.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <plait/plugin.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "kit/thread.hpp"

namespace plait::cpu {

void check_thread_limit(int threads) {
  std::mutex running;  // held until all have been started
  std::unique_lock hold(running);
  std::vector<std::thread> all;
  std::string cause;
  std::exception_ptr other;  // no memory
  try {
    all.reserve(static_cast<size_t>(std::max(threads, 0)));
    while (static_cast<int>(all.size()) < threads - 1)
      all.push_back(kit::start_thread([&running] { const std::lock_guard wait(running); }));
  } catch (const std::system_error& e) {
    cause = e.code().message();
  } catch (...) {
    other = std::current_exception();
  }
  hold.unlock();
  for (std::thread& thread : all) thread.join();
  if (other) std::rethrow_exception(other);
  if (!cause.empty())
    fail(PLAIT_ERR_IO, "[cpu] cannot start " + std::to_string(threads - 1) +
                           " compute threads beside the calling one: " + cause + " after " +
                           std::to_string(all.size()) +
                           "; raise the limits of processes and memory (ulimit -u, ulimit -v), or "
                           "set threads = 1 in [device.cpu]");
}

}  // namespace plait::cpu

// Ranks of one job as threads of one process.
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace plait::test {

// Calls body(rank) on a thread for each of `ranks`; waits for all of them. An exception of body
// ends the process: body must catch its own.
inline void on_threads(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace plait::test

// Two processes: this one is rank 0; its child is rank 1, which receives its orders through a pipe.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "rounds.hpp"

namespace bench_comm {

struct Order {
  uint64_t size, times;
};

// make(rank, folder) returns an object with all_reduce(size index); `folder` is empty and shared by
// both ranks.
template <class Make>
int run_pair(double seconds, Make&& make) {
  std::string folder = (std::filesystem::temp_directory_path() / "plait-bench-XXXXXX").string();
  int pipes[2];
  if (!mkdtemp(folder.data()) || pipe(pipes)) {
    std::perror("[bench] a folder and a pipe for two processes");
    return 1;
  }
  const pid_t child = fork();
  int code = 0;
  try {
    const auto rank = make(child == 0 ? 1 : 0, folder);
    if (child == 0) {
      close(pipes[1]);
      for (Order order; read(pipes[0], &order, sizeof order) == sizeof order;)
        for (uint64_t i = 0; i < order.times; ++i) rank->all_reduce(order.size);
    } else {
      close(pipes[0]);
      const auto tell = [&](uint64_t size, uint64_t times) {
        const Order order{size, times};
        if (write(pipes[1], &order, sizeof order) != sizeof order)
          throw std::runtime_error("rank 1 has gone");
      };
      lead(seconds, tell, [&](uint64_t size) { rank->all_reduce(size); });
      close(pipes[1]);  // rank 1 ends
      waitpid(child, nullptr, 0);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "[bench] rank %d: %s\n", child == 0 ? 1 : 0, e.what());
    code = 1;
  }
  if (child == 0) _exit(code);
  std::filesystem::remove_all(folder);
  return code;
}

}  // namespace bench_comm

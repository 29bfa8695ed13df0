// Ranks as processes: each is a child of the test, with a store of files.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/comm/host.hpp"

namespace comm_test {

// How a rank ended. `signal`: the signal that killed it; 0: it ended by itself, and the other
// members are set.
struct ProcessResult {
  int signal = 0;
  uint32_t code = PLAIT_OK;
  std::string text;
  bool ok() const { return signal == 0 && code == PLAIT_OK && text.empty(); }
};

class Processes {
 public:
  // Starts one process per rank; `body` ends with an exception or by returning.
  Processes(uint32_t size, const std::function<void(uint32_t rank, const plait_store*)>& body,
            double store_timeout = 10);
  ~Processes();  // kills the remaining processes
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  void signal(uint32_t rank, int signal) const;
  // Waits for marks set by mark() in a process.
  bool marked(const std::string& name) const;
  void wait_for_mark(const std::string& name) const;
  // Waits for the end of a rank; kills it and throws if that takes longer.
  ProcessResult wait(uint32_t rank, double seconds);

 private:
  std::string folder_;
  std::vector<pid_t> children_;
};

// In a process: sets a mark that the test can see.
void mark(const plait_store* store, const std::string& name);

}  // namespace comm_test

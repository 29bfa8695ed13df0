// Runs one function on every rank of a group: each rank is a thread with its own endpoint.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/comm/host.hpp"

namespace comm_test {

// The outcome of a rank: nothing, or the error it ended with.
struct Outcome {
  uint32_t code = PLAIT_OK;
  std::string text;
  double seconds = 0;  // from the common start to the end of this rank
  bool ok() const { return code == PLAIT_OK && text.empty(); }
};

// Calls `body` on `size` threads; an exception of doctest or of a test becomes the rank's text.
std::vector<Outcome> each_rank(uint32_t size, const std::function<void(uint32_t rank)>& body);

// Opens the group on every rank and calls `body` with each endpoint.
std::vector<Outcome> run_group(const Plugin& plugin, uint32_t size,
                               const std::function<void(Comm&)>& body,
                               const GroupSettings& settings = {});

// Throws the texts of all ranks that failed, if any.
void expect_all_ok(const std::vector<Outcome>& outcomes);

// Throws unless the condition holds: for threads, where doctest's own checks must not run.
void require(bool condition, const std::string& what);

}  // namespace comm_test

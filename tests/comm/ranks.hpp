// Runs one function on every rank of a group: each rank is a thread with its own end.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/comm/host.hpp"

namespace comm_test {

// What became of a rank: nothing, or the error it ended with.
struct Outcome {
  uint32_t code = PLAIT_OK;
  std::string text;
  double seconds = 0;  // from the start of all to the end of this one
  bool ok() const { return code == PLAIT_OK && text.empty(); }
};

// Calls `body` on `size` threads; an exception of doctest or of a test is the rank's text.
std::vector<Outcome> each_rank(uint32_t size, const std::function<void(uint32_t rank)>& body);

// Opens the group on every rank and calls `body` with each end.
std::vector<Outcome> run_group(const Plugin& plugin, uint32_t size,
                               const std::function<void(Comm&)>& body,
                               const GroupSettings& settings = {});

// Throws what all ranks that failed say, if any.
void expect_all_ok(const std::vector<Outcome>& outcomes);

// Throws unless the condition holds: for threads, where doctest's own checks do not belong.
void require(bool condition, const std::string& what);

}  // namespace comm_test

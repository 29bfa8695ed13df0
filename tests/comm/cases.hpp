// The table of cases: the input of a call on each rank, and the expected output.
#pragma once

#include <plait/comm.h>

#include <cstdint>
#include <string>
#include <vector>

namespace comm_test {

// Kind PLAIT_COMM_SEND: each rank sends a message to the next, around a ring.
struct Case {
  uint32_t kind, dtype, reduction;
  uint32_t root;  // of broadcast
  uint64_t n;
  bool in_place;
  std::string text() const;
  // Whether every rank must hold the same in `out`.
  bool same_on_all() const;
};

// The cases for a group of this size; PLAIT_TEST_ALL=1 adds the largest size of all types in every
// way.
std::vector<Case> all_cases(uint32_t ranks);

using Bytes = std::vector<unsigned char>;

// Element i of rank r's input, in whole numbers or eighths; some are so large that sums must be
// rounded.
double element(uint32_t dtype, uint32_t rank, uint64_t i);

// The input of rank r in case c: (n) or (R, n) elements.
Bytes input(const Case& c, uint32_t ranks, uint32_t rank);
// Elements of `out`: n or R * n.
uint64_t out_elements(const Case& c, uint32_t ranks);
// Empty, or the error in elements [first, last) of rank r's `out`.
std::string fault(const Case& c, uint32_t ranks, uint32_t rank, const void* out, uint64_t first,
                  uint64_t last);
std::string fault(const Case& c, uint32_t ranks, uint32_t rank, const void* out);

}  // namespace comm_test

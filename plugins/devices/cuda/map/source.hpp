// The CUDA C++ source of one map: a kernel without includes, made for the types of its operands and
// the way in which they repeat.
#pragma once

#include <plait/op.h>

#include <cstdint>
#include <string>
#include <vector>

namespace plait::cuda::map {

// What the plain kernel takes, too: it runs where no compiler is.
inline constexpr uint32_t kMostOperands = 20, kMostInstructions = 96;

inline constexpr unsigned kBlock = 256;  // threads

// The kernel's only parameter; `at` holds inputs, then outputs. The kernel takes the first
// vectors * Call::width elements in vectors and the others one by one.
struct Arguments {
  void* at[kMostOperands];
  int64_t count;    // elements of an output
  int64_t vectors;  // 0: an operand is not aligned
};

// How a kernel is called.
struct Call {
  uint32_t operands = 0;
  int64_t count = 0;             // elements of an output
  int64_t width = 1;             // elements of a vector
  std::vector<uint32_t> vector;  // operands that are accessed in vectors

  Arguments arguments(void* const* operands_of_call) const;
  // Blocks of kBlock threads. The result does not depend on their number.
  unsigned blocks(const Arguments& a) const;
};

struct Source {
  std::string name;  // of the kernel and its namespace: "map_" and a digest of the text
  std::string text;  // does not depend on Call::count as long as that fits in 31 bits
  Call call;
};

// Why no source is made of this call; empty if one is. Throws kit::Invalid for a call that breaks
// the contract of map.
std::string refusal(const plait_op_desc& d);
// Of a call that is not refused.
Source generate(const plait_op_desc& d);

}  // namespace plait::cuda::map

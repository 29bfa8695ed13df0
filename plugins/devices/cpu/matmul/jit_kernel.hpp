// Generates the inner loops (see plan.hpp for what they compute). Code pages are written first and
// made executable afterwards, never both at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plugins/devices/cpu/matmul/plan.hpp"

namespace plait::cpu {

// Arguments of a generated function. Pointers are to the first row of the panel's part; Q and D
// are at the panel's first lane. `bias` is at the first lane, or at the first row when
// bias_per_row.
struct PanelArgs {
  const float* p = nullptr;
  const float* q = nullptr;
  float* d = nullptr;
  const float* bias = nullptr;
  float* squares = nullptr;         // (tiles, lanes) of this part
  const float* prefetch = nullptr;  // what is packed next; only fetched
  int64_t tiles_hi = 0;             // the next tiles_hi * rows_hi rows
  int64_t tiles_lo = 0;             // and tiles_lo * rows_lo rows after them
};

using PanelFunction = void (*)(const PanelArgs*);

// A set of generated functions. Immutable once built; the functions may be called from any thread.
class JitCode {
 public:
  // A function for each spec; equal specs share one. Throws std::runtime_error when
  // executable memory can't be had.
  explicit JitCode(const std::vector<KernelSpec>& specs);
  ~JitCode();
  JitCode(const JitCode&) = delete;
  JitCode& operator=(const JitCode&) = delete;

  PanelFunction function(size_t index) const { return functions_[index]; }

 private:
  class Generator;
  std::unique_ptr<Generator> generator_;
  std::vector<PanelFunction> functions_;
};

}  // namespace plait::cpu

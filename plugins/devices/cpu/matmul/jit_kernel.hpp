// Generates the inner loops (see plan.hpp for what they compute). Code pages are first written and
// then made executable, never both at once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plugins/devices/cpu/matmul/plan.hpp"

namespace plait::cpu {

// Arguments of a generated function. Pointers are to the first row of the panel's part; Q and D
// point to the panel's first lane, `bias` to the first lane, or to the first row if bias_per_row.
struct PanelArgs {
  const float* p = nullptr;
  const float* q = nullptr;
  float* d = nullptr;
  const float* bias = nullptr;
  float* squares = nullptr;         // (tiles, lanes) of this part
  const float* prefetch = nullptr;  // data to be packed next; only prefetched
  int64_t tiles_hi = 0;             // the next tiles_hi * rows_hi rows
  int64_t tiles_lo = 0;             // and tiles_lo * rows_lo rows after them
};

using PanelFunction = void (*)(const PanelArgs*);

// A set of generated functions. Immutable once built; the functions may be called from any thread.
class JitCode {
 public:
  // Builds a function for each spec; equal specs share one. Throws std::runtime_error if executable
  // memory can't be allocated.
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

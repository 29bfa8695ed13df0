// In what two checkpoints differ.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/verify.hpp"

namespace plait::checkpoint {

enum class Compared { kEverything, kTensors, kParameters };

// A value of the state or a setting; "": there is none.
struct ChangedValue {
  std::string key, a, b;
};

// Adds the keys whose values differ.
void changed_values(const std::map<std::string, std::string>& a,
                    const std::map<std::string, std::string>& b, std::vector<ChangedValue>& to);

// A tensor that both have, and that differs.
struct ChangedTensor {
  const TensorRecord *a = nullptr, *b = nullptr;
  // Elements are compared if the shapes are equal, and the types are or both are floating-point.
  bool compared = false;
  uint64_t elements = 0, different = 0;  // different: not the same bits, or not the same number
  uint64_t not_finite = 0;               // of the different ones: NaN or infinite in one of them
  double max_abs = 0, max_rel = 0;       // of finite ones; relative to the larger of the two
  int64_t at = -1;                       // of the greatest absolute difference; -1: there is none
};

struct Comparison {
  std::vector<ChangedValue> state, settings;
  std::vector<const TensorRecord*> only_a, only_b;
  std::vector<ChangedTensor> changed;
  uint64_t tensors = 0, elements = 0;  // compared
  bool equal() const {
    return state.empty() && settings.empty() && only_a.empty() && only_b.empty() && changed.empty();
  }
};

// Reads every tensor that both have in pieces, and compares its checksums: they need not be
// verified. Paths, times, versions of the engine, lineages and the division among files do not
// count.
// Errors: PLAIT_ERR_DATA for damage; PLAIT_ERR_IO; those of `progress`, which is told of bytes of
// both.
Comparison compare_checkpoints(const Checkpoint& a, const Checkpoint& b, Compared what,
                               const Progress& progress);

// The bytes that it will read.
uint64_t bytes_to_compare(const Checkpoint& a, const Checkpoint& b, Compared what);

}  // namespace plait::checkpoint

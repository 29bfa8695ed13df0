// Operands of the cross-entropy rows; a separate header, because the vectorised code is compiled
// several times.
#pragma once

#include <cstdint>

namespace plait::cpu {

// R rows of C logits, of which the first `valid` are classes [first, first + valid) of `total`.
// part: this is one shard of the classes, and the loss omits the log-sum-exp. Forward writes loss
// (R) and lse (R); backward reads lse and dloss (R) and writes dlogits (R, C).
struct CrossEntropyArgs {
  const float* logits;
  const void* labels;  // (R) u8, i32 or i64
  int64_t cols, valid, first, total;
  bool part;
  float smoothing;
  float* loss = nullptr;
  float* lse = nullptr;
  const float* dloss = nullptr;
  float* dlogits = nullptr;
};

}  // namespace plait::cpu

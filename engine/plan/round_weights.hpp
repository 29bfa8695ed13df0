// Weights and optimizer states that are kept in 16 bits alone (Precision::low_weights, low_states):
// an optimizer sees them as f32, and what it makes of them is rounded stochastically. Which way an
// element is rounded depends on seed, step, parameter, state and its place in the global tensor
// alone: on no layout.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

// Elements of a parameter as they lie in a rank's memory, to be rounded.
struct RoundedElements {
  const Parameter* parameter = nullptr;
  int64_t begin = 0;          // of its stored elements, the first of these
  program::ValueId step = 0;  // (): updates made, counting this one
};

// What has an element for each of a parameter, and is rounded: the parameter, or a state of it.
struct Rounded {
  std::string state = {};   // its name; "": the parameter
  bool replicated = false;  // a state that tensor ranks do not share, though they do the parameter
};

// Rounds `v`, f32, to the memory of `target`. Returns the value of the target afterwards.
program::ValueId assign_rounded(program::Graph& g, const Plan& plan, const RoundedElements& which,
                                const Rounded& what, program::ValueId target, program::ValueId v);

// A part of a bucket that lies within one parameter.
struct BucketPiece {
  Bucket own;                // its shard: this part alone
  int64_t offset = 0;        // of its first element in the shard of the bucket
  RoundedElements elements;  // without a step
};
// What this rank updates of a bucket, a part at a time: between two of them nothing is kept in f32.
// members: the parameters of the bucket.
std::vector<BucketPiece> pieces_of(const Bucket& bucket,
                                   const std::vector<const Parameter*>& members);

}  // namespace plait::plan

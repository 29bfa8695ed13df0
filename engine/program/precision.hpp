// Mixed precision: which values of a traced program are bf16 or f16, and which stay f32.
//
// Layers are traced in f32. lower_precision() then goes by the class of each op's definition:
//   low     products, attention, rotations: operands are cast to the low type, so are results
//   table   rows of a table, which begin the residual stream: low only if that is
//   follow  norms, views, slices, sums: operands as they come. Statistics, sums and losses of 16
//           bits are f32 by their definitions; gains, biases and tables of angles stay f32
//   wide    anything else, ops of plugins among it: operands are cast to f32
// Element-wise arithmetic is f32 in registers whatever it reads. Its result has the widest type
// among the operands of its own shape: a bias or a random mask does not decide. Within losses and
// metrics it is f32. A cast that a layer writes stands.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

struct PrecisionRules {
  uint32_t low = 0;           // PLAIT_BF16 or PLAIT_F16
  bool low_residual = false;  // so is what a table gives
  // Ops [first, second) are losses and metrics, ascending.
  std::vector<std::pair<size_t, size_t>> wide_ops = {};
};

// For a traced program, before differentiate(). Values keep their numbers; each use of a value from
// outside the program, widened or not, gets a cast of its own, so that each gradient of a parameter
// is widened where it is computed.
void lower_precision(Graph& g, const PrecisionRules& rules);

// Removes casts: of two in a row the one that changes nothing; in the backward pass also a rounding
// that is widened again; and those that the op before can do as it writes
// (OpDef::writes_any_float). kept: values that are read outside the program (0: none); those whose
// cast has gone become what stands for them. A value from outside that needs a gradient is read
// through its casts until differentiate() has added up what comes through each of them, wide.
enum class CastsOfInputs { kFold, kKeepForGradients };
void fold_casts(Graph& g, const std::vector<ValueId*>& kept,
                CastsOfInputs inputs = CastsOfInputs::kFold);

// A table of 16 bits that is widened before its rows are read: the rows are read and then widened,
// which is the same and does not touch the others.
void widen_rows(Graph& g);

// Whether the op is a cast of one float type to another.
bool is_float_cast(const Graph& g, const Op& op);

}  // namespace plait::program

// Values of which each sample has one of its own, as the parameters of the adapter that it takes.
// Who writes ops sees one value with the dims that a sample's own has. It stands for a stack of all
// of them, and for the number of the one that a sample takes. An op that reads it is written by the
// rule of its definition, OpDef::per_sample.
//   N samples, G values of a stack, C.. dims of one of them
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

struct PerSampleOperand {
  enum class Kind : uint8_t {
    kShared,  // the same for all samples
    kRows,    // (N, ..): what is computed of the samples
    kStack,   // (G, C..)
  };
  ValueId value = 0;
  Kind kind = Kind::kShared;
};

// What a rule has written: a stack, or rows of the samples. 0: `refused` says what it cannot do.
struct PerSampleResult {
  ValueId value = 0;
  bool is_stack = false;
  std::string refused = {};
};

// One application of an op with a stack among its operands, for its rule.
struct PerSampleContext {
  using Kind = PerSampleOperand::Kind;
  Graph& g;
  std::string_view name;
  const std::vector<PerSampleOperand>& in;
  const Attrs& attrs;
  ValueId index;    // (N) i32: which of the stack; one at or above G makes what is computed NaN
  int64_t stacked;  // G
  bool is(size_t i, Kind kind) const { return in.at(i).kind == kind; }
  bool has_rows() const;
  // The dims of operand i as the writer sees them.
  Dims dims(size_t i) const;
  size_t ndim(size_t i) const { return dims(i).size(); }
  // (N, C..): operand i, a stack, for each sample.
  ValueId of_samples(size_t i) const;
  // The op of the attributes on these operands.
  ValueId apply(std::vector<ValueId> operands) const;
};

// Rules that definitions share.
// Element by element. Rows and stacks broadcast, but over the samples.
PerSampleResult map_per_sample(PerSampleContext& c);
// An op of one operand, whose attribute `key` names axes, or one axis: they follow G.
PerSampleResult along_axes_per_sample(PerSampleContext& c);

// Writes ops that may read such values. One adapter's wrap() or a test holds it.
class PerSample {
 public:
  // index: (N) i32, which of the stack. is_shared: whether a value is the same for all samples.
  PerSample(Graph& g, ValueId index, std::function<bool(ValueId)> is_shared);

  // The value that stands for each sample's own of `all`, which have equal shapes.
  ValueId stand_for(const std::vector<ValueId>& all);
  bool stands(ValueId v) const { return stacks_.contains(v); }
  // (G, ..): what it stands for; 0: it stands for nothing.
  ValueId stack_of(ValueId v) const {
    const auto at = stacks_.find(v);
    return at == stacks_.end() ? 0 : at->second;
  }
  // As Graph::apply(). Throws PLAIT_ERR_UNIMPLEMENTED where the op has no rule for its operands.
  std::vector<ValueId> apply(std::string_view name, std::vector<ValueId> in, Attrs attrs);

 private:
  ValueId stand_for_stack(ValueId stack);
  PerSampleOperand operand(ValueId v);

  Graph& g_;
  ValueId index_;
  std::function<bool(ValueId)> is_shared_;
  std::map<ValueId, ValueId> stacks_;  // by what stands for them
};

}  // namespace plait::program

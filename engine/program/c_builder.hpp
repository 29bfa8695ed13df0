// plait_builder: the interface through which layers, losses, metrics, optimizers and gradient rules
// of plugins append ops.
#pragma once

#include <plait/build.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/plugin_call.hpp"
#include "engine/program/graph.hpp"

namespace plait::program {

// Random numbers of one op: the counter (i64 (2): step, first sample) and the key of its numbers.
struct RandomStream {
  ValueId counter = 0;
  int64_t seed = 0, stream = 0;
};

// Functions of a builder other than ops, which depend on the caller; an empty hook makes the call
// fail with PLAIT_ERR_STATE.
struct BuildHooks {
  std::function<ValueId(const plait_parameter&)> parameter;
  std::function<ValueId(const std::string& name)> named;
  std::function<ValueId(const std::string& name, double initial)> state;
  std::function<ValueId(const plait_state&)> tensor_state;
  std::function<void(const std::string& name, ValueId)> set_state;
  // A term of the loss: factor * sum / weight.
  std::function<void(const std::string& name, double factor, ValueId sum, ValueId weight)> add_loss;
  // A value with the shape of `like`, filled with uniform random numbers in [0, 1).
  std::function<ValueId(ValueId like)> random_uniform;
  // A stream that no other op of the program has.
  std::function<RandomStream()> random_stream;
  // Writes an op in place of Graph::apply().
  std::function<std::vector<ValueId>(std::string_view name, std::vector<ValueId> in, Attrs attrs)>
      apply;
  // Told of the first result of an op that apply() has written; returns what the caller gets in its
  // place.
  std::function<ValueId(ValueId result)> wrote;
  bool training = false;
  bool elementwise_only = false;  // ops that look at other elements are refused
};

// Exists on the stack during one build call. Its functions refuse the builder of any call
// that is not under way on this thread.
class CBuilder {
 public:
  CBuilder(Graph& g, const BuildHooks& hooks);
  ~CBuilder();
  CBuilder(const CBuilder&) = delete;
  CBuilder& operator=(const CBuilder&) = delete;
  plait_builder* get() { return &handle_->base; }
  // That of the call inside which this one was made, on the same thread; NULL: none.
  const CBuilder* outer() const { return outer_; }
  bool is(const plait_builder* b) const { return b == &handle_->base; }

  // The C interface; `base` is the first member, so that a plait_builder* is a CHandle*.
  struct CHandle {
    plait_builder base;
    Graph* g;
    const BuildHooks* hooks;
  };

 private:
  // Lives as long as the process, for a plugin that keeps it: its next call is then an error.
  CHandle* const handle_;
  const CBuilder* const outer_;
};

// Checks what a build() set. Throws PLAIT_ERR_PLUGIN for an id that is no value of the program.
void check_outputs(const Graph& g, const PluginCall& at, const std::vector<ValueId>& outputs);

}  // namespace plait::program

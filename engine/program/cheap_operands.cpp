#include "engine/program/cheap_operands.hpp"

#include <algorithm>
#include <utility>

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

// Longer chains would need several kernels, and pass over memory several times.
constexpr size_t kMostOps = 64;

// What the backward pass does with the memory that a value of the forward pass owns.
struct Uses {
  std::vector<ValueId> read;  // the value and views of it that the backward pass reads
  double flops = 0;           // of the products that read it
  bool products = true;       // no other op reads it, but views
};

class Survey {
 public:
  explicit Survey(const Graph& g) : g_(g), uses_(g.n_values()), writers_(g.n_values(), 0) {
    for (const Op& op : g.ops()) {
      if (!op.def->is_view)
        for (ValueId v : op.out) ++writers_[g.storage_of(v)];
      if (op.backward) add(op);
    }
  }
  bool can_drop(const Op& maker, ValueId v, double flops) {
    const Uses& uses = uses_[v];
    const Value& value = g_.value(v);
    return !maker.backward && !value.alias_of && value.role == Role::kTransient &&
           writers_[v] == 1 && !uses.read.empty() && uses.products &&
           uses.flops >= flops * static_cast<double>(elements(value.shape)) && cheap(maker);
  }
  // The values to recompute in place of v. From here on it is no value that is kept.
  std::vector<ValueId> drop(ValueId v) { return std::exchange(uses_[v].read, {}); }

 private:
  void add(const Op& op) {
    for (ValueId v : op.in) {
      const ValueId memory = g_.storage_of(v);
      const Op* maker = maker_of(memory);
      if (!maker || maker->backward) continue;
      Uses& uses = uses_[memory];
      if (!maker_of(v)->backward &&
          std::find(uses.read.begin(), uses.read.end(), v) == uses.read.end())
        uses.read.push_back(v);
      // recompute() leaves readers of other stages as they are.
      uses.products &= (op.def->is_view || op.def->is_product || op.def->prepares_operand) &&
                       maker->stage == op.stage;
      uses.flops += product_flops(op);
    }
  }
  // Of the op, or of the products that read the operand that it prepares.
  double product_flops(const Op& op) const {
    if (op.def->is_product) return flops_of(g_, op);
    if (!op.def->prepares_operand) return 0;
    double flops = 0;
    for (const int32_t r : g_.readers(op.out[0]))
      if (const Op& reader = g_.ops()[static_cast<size_t>(r)]; reader.def->is_product)
        flops += flops_of(g_, reader);
    return flops;
  }
  // Whether cheap ops alone lie between the results of `last` and values that are there.
  bool cheap(const Op& last) const {
    std::vector<const Op*> open{&last};
    for (size_t k = 0; k < open.size(); ++k) {
      const Op& op = *open[k];
      if (k == kMostOps || op.def->updates_input ||
          !(op.def->cheap_to_recompute || op.def->is_view))
        return false;
      for (ValueId v : op.in) {
        const ValueId memory = g_.storage_of(v);
        if (writers_[memory] > (maker_of(memory) ? 1U : 0U)) return false;  // changed since
        const Op* maker = maker_of(v);
        if (!maker) continue;
        if (maker->stage != last.stage) return false;  // another rank may have it
        // recompute() keeps what the backward pass reads itself, not through another view.
        const std::vector<ValueId>& kept = uses_[memory].read;
        if (std::find(kept.begin(), kept.end(), v) == kept.end() &&
            std::find(open.begin(), open.end(), maker) == open.end())
          open.push_back(maker);
      }
    }
    return true;
  }
  const Op* maker_of(ValueId v) const {
    const int32_t producer = g_.value(v).producer;
    return producer < 0 ? nullptr : &g_.ops()[static_cast<size_t>(producer)];
  }

  const Graph& g_;
  std::vector<Uses> uses_;         // by the value that owns the memory
  std::vector<uint32_t> writers_;  // by the same
};

}  // namespace

std::vector<ValueId> cheap_operands(const Graph& g, double flops) {
  Survey survey(g);
  std::vector<ValueId> all;
  for (const Op& op : g.ops())
    for (ValueId v : op.out)
      if (survey.can_drop(op, v, flops)) {
        const std::vector<ValueId> read = survey.drop(v);
        all.insert(all.end(), read.begin(), read.end());
      }
  return all;
}

}  // namespace plait::program

#include "engine/program/overwrite_inputs.hpp"

#include <algorithm>

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

class Overwriter {
 public:
  explicit Overwriter(Graph& g) : g_(g), last_(g.n_values(), -1), kept_(g.n_values(), 0) {
    for (size_t i = 0; i < g.ops().size(); ++i) {
      const Op& op = g.ops()[i];
      for (const auto* list : {&op.in, &op.out})
        for (const ValueId v : *list) {
          const ValueId storage = g.storage_of(v);
          last_[storage] = static_cast<int32_t>(i);
          // A collective may still be under way when its operands have no more readers.
          if (g.is_output(v) || op.def->collective != CollectiveOp::kNone) kept_[storage] = 1;
        }
    }
  }

  // Whether result 0 of op i may lie where its operand k does.
  bool allows(size_t i, size_t k) const {
    const Op& op = g_.ops()[i];
    const ValueId x = op.in[k], storage = g_.storage_of(x), y = op.out[0];
    const auto in_storage = [&](ValueId v) { return g_.storage_of(v) == storage; };
    return g_.value(storage).role == Role::kTransient && !kept_[storage] &&
           last_[storage] == static_cast<int32_t>(i) &&
           std::count_if(op.in.begin(), op.in.end(), in_storage) == 1 &&
           g_.value(y).alias_of == 0 && g_.value(y).role == Role::kTransient && !kept_[y] &&
           g_.storage_offset(x) == 0 && g_.shape(x).dtype == g_.shape(y).dtype &&
           bytes(g_.shape(storage)) == bytes(g_.shape(y)) &&
           bytes(g_.shape(x)) == bytes(g_.shape(y));
  }
  void overwrite(size_t i, size_t k) {
    const Op& op = g_.ops()[i];
    const ValueId y = op.out[0], storage = g_.storage_of(op.in[k]);
    g_.value(y).alias_of = op.in[k];
    last_[storage] = std::max(last_[storage], last_[y]);
  }

 private:
  Graph& g_;
  std::vector<int32_t> last_;  // by storage: the last op that reads or writes it
  std::vector<char> kept_;     // by storage
};

}  // namespace

void overwrite_inputs(Graph& g, const std::function<bool(const Graph&, const Op&)>& runs) {
  Overwriter all(g);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const int32_t k = g.ops()[i].def->overwrites;
    if (k < 0 || !all.allows(i, static_cast<size_t>(k))) continue;
    const std::vector<int32_t> before = g.ops()[i].alias;
    std::vector<int32_t> alias(g.ops()[i].out.size(), -1);
    alias[0] = k;
    g.set_alias(i, std::move(alias));
    if (runs(g, g.ops()[i]))
      all.overwrite(i, static_cast<size_t>(k));
    else
      g.set_alias(i, before);
  }
}

}  // namespace plait::program

#include "engine/program/splice.hpp"

namespace plait::program {

std::vector<ValueId> splice(Graph& to, const Graph& from,
                            const std::function<ValueId(ValueId v)>& outside) {
  std::vector<ValueId> made(from.n_values(), 0);
  const std::string scope = to.scope;
  for (const Op& op : from.ops()) {
    Op copy = op;
    to.scope = op.scope;
    for (ValueId& v : copy.in) {
      if (!made[v]) made[v] = outside(v);
      v = made[v];
    }
    copy.out.clear();
    std::vector<plait_shape> shapes;
    for (const ValueId v : op.out) shapes.push_back(from.shape(v));
    const std::vector<ValueId> fresh = to.append(std::move(copy), shapes);
    for (size_t k = 0; k < fresh.size(); ++k) {
      const Value& was = from.value(op.out[k]);
      made[op.out[k]] = fresh[k];
      if (was.alias_of) to.value(fresh[k]).alias_of = made[was.alias_of];
      to.value(fresh[k]).byte_offset = was.byte_offset;
    }
  }
  to.scope = scope;
  return made;
}

}  // namespace plait::program

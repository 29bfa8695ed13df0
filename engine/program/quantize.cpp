#include "engine/program/quantize.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/program/op_def.hpp"
#include "engine/program/precision.hpp"

namespace plait::program {
namespace {

constexpr size_t kWeight = 1;  // the input of a product that may be rows of weights

bool reads_rows(const Graph& g, const Op& op) {
  return op.def && op.def->reads_rows && op.def->reads_rows(g, op);
}

// The value that v is a cast of; else v.
ValueId uncast(const Graph& g, ValueId v) {
  const int32_t i = g.value(v).producer;
  if (i < 0) return v;
  const Op& op = g.ops()[static_cast<size_t>(i)];
  return is_float_cast(g, op) ? op.in[0] : v;
}

}  // namespace

void quantize_products(Graph& g, const std::set<ValueId>& weights,
                       const std::function<QuantizedRows(ValueId)>& rows_of) {
  std::map<ValueId, QuantizedRows> made;
  const size_t n = g.ops().size();
  for (size_t i = 0; i < n; ++i) {
    if (!reads_rows(g, g.ops()[i])) continue;
    const Op op = g.ops()[i];
    const ValueId weight = uncast(g, op.in[kWeight]);
    if (!weights.contains(weight)) continue;
    const auto [rows, first] = made.try_emplace(weight);
    if (first) rows->second = rows_of(weight);
    g.scope = op.scope;
    g.stage = op.stage;
    const ValueId y = op.def->write_quantized(g, op, rows->second);
    Op by = g.remove(static_cast<size_t>(g.value(y).producer));
    by.out = op.out;
    g.replace(i, std::move(by));
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < n; ++i) order.push_back(i);
  g.reorder(order);
}

bool only_quantized(const Graph& g, ValueId v) {
  const std::vector<int32_t>& readers = g.readers(v);
  return std::all_of(readers.begin(), readers.end(), [&](int32_t i) {
    const Op& op = g.ops()[static_cast<size_t>(i)];
    return reads_rows(g, op) && op.in[kWeight] == v && op.in[0] != v;
  });
}

}  // namespace plait::program

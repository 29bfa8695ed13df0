#include "engine/program/quantize.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "engine/program/op_def.hpp"
#include "engine/program/precision.hpp"

namespace plait::program {
namespace {

// The input that quantize_products() rewrites; see OpDef::reads_weight.
std::optional<size_t> weight_input(const Graph& g, const Op& op, Tables tables) {
  if (!op.def || !op.def->reads_weight) return std::nullopt;
  const auto use = op.def->weight_use ? op.def->weight_use(g, op) : std::nullopt;
  if (use && use->is_table && tables == Tables::kStay) return std::nullopt;
  return op.def->reads_weight(g, op);
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
                       const std::function<QuantizedRows(ValueId)>& rows_of, Tables tables) {
  std::map<ValueId, QuantizedRows> made;
  const size_t n = g.ops().size();
  for (size_t i = 0; i < n; ++i) {
    const std::optional<size_t> at = weight_input(g, g.ops()[i], tables);
    if (!at) continue;
    const Op op = g.ops()[i];
    const ValueId weight = uncast(g, op.in[*at]);
    if (!weights.contains(weight)) continue;
    const auto [rows, first] = made.try_emplace(weight);
    if (first) rows->second = rows_of(weight);
    g.write_like(op);
    const ValueId y = op.def->write_quantized(g, op, rows->second);
    Op by = g.remove(static_cast<size_t>(g.value(y).producer));
    by.out = op.out;
    g.replace(i, std::move(by));
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < n; ++i) order.push_back(i);
  g.reorder(order);
}

bool only_quantized(const Graph& g, ValueId v, Tables tables) {
  const std::vector<int32_t>& readers = g.readers(v);
  return std::all_of(readers.begin(), readers.end(), [&](int32_t i) {
    const Op& op = g.ops()[static_cast<size_t>(i)];
    const std::optional<size_t> at = weight_input(g, op, tables);
    return at && op.in[*at] == v && std::count(op.in.begin(), op.in.end(), v) == 1;
  });
}

}  // namespace plait::program

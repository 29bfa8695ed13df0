#include "engine/program/verify.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/op_desc.hpp"
#include "engine/program/text/print.hpp"
#include "engine/program/verify_memory.hpp"
#include "kit/ops/map.hpp"

namespace plait::program {
namespace {

using Found = std::optional<Fault>;

std::string id(ValueId v) { return "%" + std::to_string(v); }

// Every op has a rule and names values that exist; each value is made once.
Found check_producers(const Graph& g) {
  std::vector<int32_t> made_by(g.n_values(), -1);
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const Op& op = g.ops()[i];
    const auto at = static_cast<int32_t>(i);
    if (!op.def) return Fault{at, "was taken out, but is still in the list"};
    if (op.out.empty()) return Fault{at, "makes nothing"};
    for (const auto* list : {&op.in, &op.out})
      for (ValueId v : *list)
        if (v == 0 || v >= g.n_values()) return Fault{at, "names " + id(v) + ", which is no value"};
    for (ValueId v : op.out) {
      if (made_by[v] >= 0)
        return Fault{at, "makes " + id(v) + ", which op " + std::to_string(made_by[v]) +
                             " made: " + op_line(g, static_cast<size_t>(made_by[v]))};
      made_by[v] = at;
    }
  }
  for (ValueId v = 1; v < g.n_values(); ++v)
    if (const int32_t noted = g.value(v).producer; noted != made_by[v])
      return Fault{made_by[v], id(v) + " is noted as made by op " + std::to_string(noted) +
                                   ", but op " + std::to_string(made_by[v]) + " makes it"};
  return {};
}

Found check_readers(const Graph& g) {
  std::vector<std::vector<int32_t>> readers(g.n_values());
  for (size_t i = 0; i < g.ops().size(); ++i)
    for (ValueId v : g.ops()[i].in)
      if (readers[v].empty() || readers[v].back() != static_cast<int32_t>(i))
        readers[v].push_back(static_cast<int32_t>(i));
  for (ValueId v = 1; v < g.n_values(); ++v) {
    const std::vector<int32_t>& noted = g.readers(v);
    if (noted == readers[v]) continue;
    const auto [a, b] =
        std::mismatch(noted.begin(), noted.end(), readers[v].begin(), readers[v].end());
    const bool missing = a == noted.end() || (b != readers[v].end() && *b < *a);
    return Fault{missing ? *b : *a,
                 missing ? "is missing in the list of readers of " + id(v)
                         : "is in the list of readers of " + id(v) + ", but does not read it"};
  }
  return {};
}

// The values that one shares memory with come to an end, and it lies within each of them.
Found check_alias(const Graph& g, ValueId v, int32_t at) {
  uint64_t offset = 0;
  size_t steps = 0;
  for (ValueId u = v; g.value(u).alias_of; u = g.value(u).alias_of) {
    const ValueId owner = g.value(u).alias_of;
    if (owner >= g.n_values())
      return Fault{at, id(u) + " lies in " + id(owner) + ", which is no value"};
    if (++steps > g.n_values()) return Fault{at, id(v) + " lies in itself"};
    offset += g.value(u).byte_offset;
    const uint64_t size = bytes(g.shape(v)), room = bytes(g.shape(owner));
    if (offset > room || size > room - offset)
      return Fault{at, id(v) + " takes bytes " + std::to_string(offset) + " to " +
                           std::to_string(offset + size) + " of " + id(owner) + ", which has " +
                           std::to_string(room)};
  }
  return {};
}

// Producers of what is read, and of the memory it lies in, come first.
Found check_order(const Graph& g) {
  for (size_t i = 0; i < g.ops().size(); ++i) {
    const auto at = static_cast<int32_t>(i);
    const Op& op = g.ops()[i];
    for (const auto* list : {&op.in, &op.out})
      for (ValueId v : *list)
        if (Found f = check_alias(g, v, at)) return f;
    for (ValueId v : op.in)
      for (ValueId u = v; u; u = g.value(u).alias_of)
        if (const int32_t maker = g.value(u).producer; maker >= at)
          return Fault{at, "reads " + id(v) + (u == v ? "" : " in the memory of " + id(u)) +
                               ", which " + (maker == at ? "it makes itself" : "a later op makes")};
    for (size_t k = 0; k < op.out.size(); ++k) {
      const int32_t from = op.alias.empty() ? -1 : k < op.alias.size() ? op.alias[k] : INT32_MAX;
      if (from < 0) continue;
      if (from >= static_cast<int32_t>(op.in.size()) || op.alias.size() != op.out.size() ||
          g.value(op.out[k]).alias_of != op.in[static_cast<size_t>(from)])
        return Fault{at, "says in_place " + std::to_string(from) + " of " + id(op.out[k]) +
                             ", which does not lie in that operand"};
    }
  }
  return {};
}

std::vector<plait_shape> inferred(const Graph& g, const Op& op) {
  std::vector<plait_shape> in;
  std::vector<char> weak;
  for (ValueId v : op.in) {
    in.push_back(g.shape(v));
    weak.push_back(g.value(v).weak);
  }
  const OpDesc desc(op.name, in, op.attrs);
  return op.def->infer({*op.def, in, op.attrs, *desc.get(), op.scope, weak, g.float_type()});
}

// A product may have a sum of squares as one more result: see kFoldSquares.
bool has_squares(const Op& op) {
  return (op.def->folds & kFoldSquares) != 0 && op.attrs.integer("squares", 0) != 0;
}

Found check_shapes(const Graph& g, size_t i) {
  const auto at = static_cast<int32_t>(i);
  const Op& op = g.ops()[i];
  try {
    if (op.def->is_map) {
      kit::check_map(*OpDesc(g, op, 1).get());
      return {};
    }
    if (!op.def->infer) return {};
    const std::vector<plait_shape> expected = inferred(g, op);
    if (op.out.size() != expected.size() + (has_squares(op) ? 1 : 0))
      return Fault{at, "has " + std::to_string(op.out.size()) + " results, its definition makes " +
                           std::to_string(expected.size())};
    for (size_t k = 0; k < expected.size(); ++k)
      if (!same(g.shape(op.out[k]), expected[k]))
        return Fault{at, id(op.out[k]) + " is " + text(g.shape(op.out[k])) +
                             ", its definition makes " + text(expected[k])};
    return {};
  } catch (const kit::Invalid& e) {
    return Fault{at, e.what()};
  } catch (const Error& e) {
    return Fault{at, e.text()};
  }
}

Found check_all_shapes(const Graph& g) {
  for (size_t i = 0; i < g.ops().size(); ++i)
    if (Found f = check_shapes(g, i)) return f;
  return {};
}

}  // namespace

std::optional<Fault> find_fault(const Graph& g) {
  for (const auto check : {check_producers, check_readers, check_order, check_all_shapes,
                           find_collective_fault, find_memory_fault})
    if (Found f = check(g)) return f;
  return {};
}

void fail_verify(const Graph& g, const Fault& fault, const std::string& pass,
                 const std::string& program) {
  std::string line;
  if (fault.op >= 0)
    line =
        "op " + std::to_string(fault.op) + ", " + op_line(g, static_cast<size_t>(fault.op)) + ": ";
  fail_internal("[verify] after " + pass + ", program '" + program + "': " + line + fault.what +
                "; this is a fault of the engine, please report it with the experiment");
}

void verify(const Graph& g, const std::string& pass, const std::string& program) {
  if (const Found fault = find_fault(g)) fail_verify(g, *fault, pass, program);
}

bool verify_enabled() {
  const char* wanted = std::getenv("PLAIT_VERIFY");
  return wanted && std::string_view(wanted) == "1";
}

}  // namespace plait::program

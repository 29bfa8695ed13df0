#include "engine/program/fuse.hpp"

#include <algorithm>
#include <functional>

#include "engine/program/op_def.hpp"
#include "engine/program/passes.hpp"
#include "kit/ops/map.hpp"

// P is the producer, C the consumer that it is fused into: P's instructions come first, C's follow
// with registers renumbered, and the fused op stands where C stood.

namespace plait::program {
namespace {

// Beyond these a generated kernel would spill more than fusion saves.
constexpr size_t kMaxOperands = 20;
constexpr size_t kMaxInstrs = 96;

// An op that was fused into another one leaves an empty op.
bool is_map(const Op& op) { return op.def && op.def->is_map; }

bool single_element(const Graph& g, ValueId v) { return elements(g.shape(v)) == 1; }

// A map of scalars to a scalar, cheap enough for each reader to compute again.
bool is_scalar_map(const Graph& g, const Op& op) {
  return op.out.size() == 1 && op.map.instrs.size() <= 16 && single_element(g, op.out[0]) &&
         std::all_of(op.in.begin(), op.in.end(), [&](ValueId v) { return single_element(g, v); });
}

// The values that lie in the memory of each storage. Fusion changes producers, not memory.
class Memory {
 public:
  explicit Memory(const Graph& g) : g_(g), next_(g.n_values(), 0), last_(g.n_values(), 0) {
    for (ValueId v = 1; v < g.n_values(); ++v) {
      const ValueId storage = g.storage_of(v);
      if (storage == v) continue;
      next_[last_[storage] ? last_[storage] : storage] = v;
      last_[storage] = v;
    }
  }
  // Whether an op strictly between i and j writes a value in the memory of `v`; with `reads`: or
  // reads one.
  bool touched(ValueId v, size_t i, size_t j, bool reads) const {
    for (ValueId m = g_.storage_of(v); m; m = next_[m]) {
      const int32_t made = g_.value(m).producer;
      if (made > static_cast<int32_t>(i) && made < static_cast<int32_t>(j)) return true;
      if (!reads) continue;
      const auto& readers = g_.readers(m);
      const auto at = std::upper_bound(readers.begin(), readers.end(), static_cast<int32_t>(i));
      if (at != readers.end() && *at < static_cast<int32_t>(j)) return true;
    }
    return false;
  }

 private:
  const Graph& g_;
  std::vector<ValueId> next_, last_;  // a list from each storage through the values in its memory
};

// Whether no op between P (at i) and C (at j) writes an input of P, or accesses persistent memory
// that P writes.
bool may_move(const Graph& g, const Memory& memory, size_t i, size_t j) {
  const Op& p = g.ops()[i];
  return std::none_of(p.in.begin(), p.in.end(),
                      [&](ValueId v) { return memory.touched(v, i, j, false); }) &&
         std::none_of(p.out.begin(), p.out.end(),
                      [&](ValueId v) { return g.is_output(v) && memory.touched(v, i, j, true); });
}

// Whether a value may stay in a register, where arithmetic is f32. 16 bits are what a value is
// stored
// in, so arithmetic on them need not round between two instructions; a cast to them is wanted.
bool keeps_precision(const Graph& g, const Op& p, ValueId v) {
  const uint32_t dtype = g.shape(v).dtype;
  if (dtype == PLAIT_F32 || dtype == PLAIT_F64) return true;
  if (dtype != PLAIT_BF16 && dtype != PLAIT_F16) return false;
  const auto at = static_cast<size_t>(std::find(p.out.begin(), p.out.end(), v) - p.out.begin());
  const uint32_t made = p.map.outputs[at];
  return made >= p.in.size() && p.map.instrs[made - p.in.size()].op != PLAIT_MAP_COPY;
}

bool same_arithmetic(const Graph& g, const Op& p, const Op& c) {
  if (p.in.empty()) return true;  // constants
  auto wide = [&](const Op& op) {
    auto is = [&](ValueId v) { return g.shape(v).dtype == PLAIT_F64; };
    return std::any_of(op.in.begin(), op.in.end(), is) ||
           std::any_of(op.out.begin(), op.out.end(), is);
  };
  return wide(p) == wide(c);
}

// Registers that an instruction does not have stay 0, so that equal instructions are equal.
void rename(plait_map_instr& instr, const std::vector<uint32_t>& renamed) {
  const int n = kit::map_arity(instr.op);
  instr.a = n > 0 ? renamed[instr.a] : 0;
  instr.b = n > 1 ? renamed[instr.b] : 0;
  instr.c = n > 2 ? renamed[instr.c] : 0;
}

// The fused op: the inputs of P and C without duplicates and without outputs of P; the outputs of
// C, then `kept` outputs of P.
Op join(const Op& p, const Op& c, const std::vector<ValueId>& live_outputs) {
  Op joined;
  joined.name = c.name;
  joined.def = c.def;
  joined.scope = c.scope;
  auto made_by_p = [&](ValueId v) {
    return std::find(p.out.begin(), p.out.end(), v) != p.out.end();
  };
  for (const Op* op : {&p, &c})
    for (ValueId v : op->in)
      if (!made_by_p(v) && std::find(joined.in.begin(), joined.in.end(), v) == joined.in.end())
        joined.in.push_back(v);
  const auto n_in = static_cast<uint32_t>(joined.in.size());
  auto input = [&](ValueId v) {
    return static_cast<uint32_t>(std::find(joined.in.begin(), joined.in.end(), v) -
                                 joined.in.begin());
  };

  std::vector<uint32_t> p_register(p.in.size() + p.map.instrs.size()),
      c_register(c.in.size() + c.map.instrs.size());
  auto append = [&](const Op& op, std::vector<uint32_t>& renamed) {
    for (size_t k = 0; k < op.map.instrs.size(); ++k) {
      plait_map_instr instr = op.map.instrs[k];
      rename(instr, renamed);
      renamed[op.in.size() + k] = n_in + static_cast<uint32_t>(joined.map.instrs.size());
      joined.map.instrs.push_back(instr);
    }
  };
  for (size_t k = 0; k < p.in.size(); ++k) p_register[k] = input(p.in[k]);
  append(p, p_register);
  auto p_result = [&](ValueId v) {
    const auto at = std::find(p.out.begin(), p.out.end(), v) - p.out.begin();
    return p_register[p.map.outputs[static_cast<size_t>(at)]];
  };
  for (size_t k = 0; k < c.in.size(); ++k)
    c_register[k] = made_by_p(c.in[k]) ? p_result(c.in[k]) : input(c.in[k]);
  append(c, c_register);

  joined.out = c.out;
  for (uint32_t r : c.map.outputs) joined.map.outputs.push_back(c_register[r]);
  for (ValueId v : live_outputs) {
    joined.out.push_back(v);
    joined.map.outputs.push_back(p_result(v));
  }
  return joined;
}

bool within_limits(const Op& joined) {
  return joined.in.size() + joined.out.size() <= kMaxOperands &&
         joined.map.instrs.size() <= kMaxInstrs;
}

// Tries to fuse the producer of input k of the op at j. True when the program changed.
bool fuse_producer(Graph& g, const Memory& memory, size_t j, size_t k) {
  const Op& c = g.ops()[j];
  const ValueId v = c.in[k];
  if (g.value(v).producer < 0 || g.value(v).alias_of) return false;
  const auto i = static_cast<size_t>(g.value(v).producer);
  const Op& p = g.ops()[i];
  if (i >= j || !is_map(p) || !same_arithmetic(g, p, c)) return false;
  if (!keeps_precision(g, p, v) || !may_move(g, memory, i, j)) return false;
  if (is_scalar_map(g, p)) {
    Op joined = join(p, c, {});
    if (!within_limits(joined)) return false;
    g.replace(j,
              std::move(joined));  // P stays for its other readers; eliminate_dead_ops() drops it
                                   // when there are none
    return true;
  }
  if (!same_dims(g.shape(p.out[0]), g.shape(c.out[0]))) return false;
  std::vector<ValueId> live_outputs;
  for (ValueId out : p.out) {
    const auto& readers = g.readers(out);
    if (!readers.empty() && readers.front() < static_cast<int32_t>(j)) return false;
    const bool others = std::any_of(readers.begin(), readers.end(),
                                    [&](int32_t r) { return r != static_cast<int32_t>(j); });
    if (others || g.is_output(out)) live_outputs.push_back(out);
  }
  Op joined = join(p, c, live_outputs);
  if (!within_limits(joined)) return false;
  g.remove(i);
  g.replace(j, std::move(joined));
  return true;
}

// Ops before j that also read one of its larger inputs, the nearest first.
std::vector<size_t> siblings(const Graph& g, size_t j) {
  std::vector<size_t> all;
  for (ValueId v : g.ops()[j].in) {
    if (single_element(g, v)) continue;
    for (const int32_t r : g.readers(v)) {
      if (r >= static_cast<int32_t>(j)) break;
      all.push_back(static_cast<size_t>(r));
    }
  }
  std::sort(all.begin(), all.end(), std::greater<>());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Fuses an earlier map of the same shape that reads the same tensor into an in-place update: one
// pass over memory instead of two, and the update that reads the map's result can be fused next.
bool fuse_sibling(Graph& g, const Memory& memory, size_t j) {
  const Op& c = g.ops()[j];
  if (std::none_of(c.out.begin(), c.out.end(), [&](ValueId v) { return g.value(v).alias_of != 0; }))
    return false;
  for (const size_t i : siblings(g, j)) {
    const Op& p = g.ops()[i];
    if (!is_map(p) || !same_dims(g.shape(p.out[0]), g.shape(c.out[0])) || !same_arithmetic(g, p, c))
      continue;
    const bool early_reader = std::any_of(p.out.begin(), p.out.end(), [&](ValueId v) {
      return !g.readers(v).empty() && g.readers(v).front() <= static_cast<int32_t>(j);
    });
    if (early_reader || !may_move(g, memory, i, j)) continue;
    Op joined = join(p, c, p.out);
    if (!within_limits(joined)) continue;
    g.remove(i);
    g.replace(j, std::move(joined));
    return true;
  }
  return false;
}

// A fused op may contain the same instruction twice (scalars that both parts read): keeps the
// first.
void merge_equal_instrs(Op& op) {
  const auto n_in = static_cast<uint32_t>(op.in.size());
  std::vector<uint32_t> renamed(n_in + op.map.instrs.size());
  for (uint32_t r = 0; r < n_in; ++r) renamed[r] = r;
  std::vector<plait_map_instr> unique;
  for (size_t k = 0; k < op.map.instrs.size(); ++k) {
    plait_map_instr x = op.map.instrs[k];
    rename(x, renamed);
    const auto same = std::find_if(unique.begin(), unique.end(), [&](const plait_map_instr& y) {
      return x.op == y.op && x.a == y.a && x.b == y.b && x.c == y.c &&
             (x.op != PLAIT_MAP_CONST || x.value == y.value);
    });
    renamed[n_in + k] = n_in + static_cast<uint32_t>(same - unique.begin());
    if (same == unique.end()) unique.push_back(x);
  }
  for (uint32_t& r : op.map.outputs) r = renamed[r];
  op.map.instrs = std::move(unique);
}

}  // namespace

void fuse_maps(Graph& g) {
  const Memory memory(g);
  for (size_t j = 0; j < g.ops().size(); ++j) {
    if (!is_map(g.ops()[j])) continue;
    for (size_t k = 0; k < g.ops()[j].in.size();) k = fuse_producer(g, memory, j, k) ? 0 : k + 1;
    while (fuse_sibling(g, memory, j)) {
    }
    Op merged = g.ops()[j];
    merge_equal_instrs(merged);
    g.replace(j, std::move(merged));
  }
  eliminate_dead_ops(g);
}

}  // namespace plait::program

#include "engine/program/plugin_op.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_outputs.hpp"
#include "engine/base/text.hpp"
#include "engine/program/c_builder.hpp"
#include "engine/program/op_desc.hpp"
#include "engine/program/shard.hpp"
#include "kit/dtype.hpp"

namespace plait::program {
namespace {

// Whether the table is long enough to have this member.
#define PLAIT_ITEM_HAS(item, member) \
  ((item).struct_size >= offsetof(plait_op_item, member) + sizeof((item).member))

// "[plugin x] infer() of op 'x.y' at model.fc1 ", the beginning of a message.
std::string head_of(const OpDef& def, const char* function, const std::string& scope) {
  const PluginCall at = plugin_call(def, function);
  return "[plugin " + std::string(at.plugin) + "] " + text_of(at) + " at " + scope + " ";
}

plait_shape checked_shape(const plait_shape& s, const std::string& head, size_t i) {
  const auto refuse = [&](const std::string& what) {
    fail(PLAIT_ERR_PLUGIN, head + strf("set output %zu to ", i) + what + "; tell its author");
  };
  if (s.dtype == 0)
    fail(PLAIT_ERR_PLUGIN, head + strf("left output %zu unset; tell its author", i));
  if (kit::dtype_bytes(s.dtype) == 0)
    refuse(strf("element type %u, which does not exist", s.dtype));
  if (s.ndim > PLAIT_MAX_NDIM)
    refuse(strf("ndim %u, at most %d are supported", s.ndim, PLAIT_MAX_NDIM));
  try {
    return make_shape(s.dtype, dims_of(s));
  } catch (const Error& e) {
    refuse("a malformed shape: " + e.text());
    throw;
  }
}

std::vector<plait_shape> infer(const InferContext& c) {
  // No element type: what the rule does not set is seen.
  PluginOutputs<plait_shape> room(c.def.item->n_outputs, plait_shape{});
  check_plugin(plugin_call(c.def, "infer"), "the shape of " + c.scope,
               [&] { return c.def.item->infer(c.def.host, &c.desc, room.data()); });
  std::vector<plait_shape> outputs =
      room.take(plugin_call(c.def, "infer"), "outputs, the item declares");
  const std::string head = head_of(c.def, "infer", c.scope);
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = checked_shape(outputs[i], head, i);
  return outputs;
}

// The gradient rule, through the C builder.
void vjp(VjpContext& use) {
  const OpDef& def = *use.op.def;
  const OpDesc desc(use.g, use.op, 1);
  std::vector<uint8_t> wanted(use.wanted.begin(), use.wanted.end());
  plait_op_use u{sizeof(plait_op_use),
                 static_cast<uint32_t>(use.op.in.size()),
                 static_cast<uint32_t>(use.op.out.size()),
                 desc.get()->n_attrs,
                 0,
                 use.op.in.data(),
                 use.op.out.data(),
                 use.d_out.data(),
                 wanted.data(),
                 desc.get()->attrs};
  PluginOutputs<ValueId> room(use.d_in.size(), 0);
  BuildHooks hooks;  // gradient rules have no parameters and no named values
  CBuilder builder(use.g, hooks);
  check_plugin(plugin_call(def, "gradient"), "the gradient of " + use.op.scope,
               [&] { return def.item->gradient(builder.get(), &u, room.data()); });
  use.d_in = room.take(plugin_call(def, "gradient"), "of d_inputs, the op has");
  for (size_t i = 0; i < use.d_in.size(); ++i) {
    const ValueId v = use.d_in[i];
    if (!v || !wanted[i]) continue;
    const auto refuse = [&](const std::string& what) {
      fail(PLAIT_ERR_PLUGIN, head_of(def, "gradient", use.op.scope) +
                                 strf("set d_inputs[%zu] to ", i) + what + "; tell its author");
    };
    if (v >= use.g.n_values()) refuse(strf("%u, which is no value of this program", v));
    const plait_shape &found = use.g.shape(v), &expected = use.g.shape(use.op.in[i]);
    if (!same_dims(found, expected) || !is_float(found.dtype))
      refuse(text(found) + ", expected a float of the input's shape, " + text(expected));
  }
}

double flops(const Graph& g, const Op& op) {
  const plait_op_item* item = op.def->item;
  const double n = call_plugin(plugin_call(*op.def, "flops"),
                               [&] { return item->flops(OpDesc(g, op, 1).get()); });
  if (!std::isfinite(n) || n < 0)
    fail(PLAIT_ERR_PLUGIN, head_of(*op.def, "flops", op.scope) + "returned " + strf("%g", n) +
                               ", expected a number that is not below 0; tell its author");
  return n;
}

[[noreturn]] void refuse_placement(const Op& op, const char* list, size_t i, const char* what) {
  fail(PLAIT_ERR_PLUGIN, head_of(*op.def, "shard", op.scope) + "set " + list + "[" +
                             std::to_string(i) + "] to " + what + "; tell its author");
}

// The dimension that a placement names, checked against the operand's shape.
Placement placement_of(const Op& op, const plait_placement& p, const plait_shape& s,
                       const char* list, size_t i) {
  if (p.kind != PLAIT_PLACE_SHARD) return kReplicated;
  if (p.dim < 0 || p.dim >= static_cast<int32_t>(s.ndim))
    refuse_placement(op, list, i, ("a dimension that " + text(s) + " has not").c_str());
  return shard_along(p.dim);
}

// The item's sharding rule, asked of one axis of the mesh.
bool shard(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t ranks,
           Sharding& sharding) {
  const OpDesc desc(g, op, 1);
  constexpr plait_placement kWhole{PLAIT_PLACE_REPLICATE, -1, 0, 0};
  PluginOutputs<plait_placement> room_in(op.in.size(), kWhole), room_out(op.out.size(), kWhole);
  std::vector<plait_placement> held;
  for (const Placement p : have)
    held.push_back({p.is_shard() ? PLAIT_PLACE_SHARD : PLAIT_PLACE_REPLICATE, p.dim, 0, 0});
  plait_shard_use use{sizeof use,     desc.get(),     1, 0, &ranks, held.data(),
                      room_in.data(), room_out.data()};
  const PluginCall at = plugin_call(*op.def, "shard");
  const bool sharded = call_plugin(at, [&] { return op.def->item->shard(&use); }) != 0;
  const std::vector<plait_placement> in = room_in.take(at, "of inputs, the op has"),
                                     out = room_out.take(at, "of outputs, the op has");
  if (!sharded) return false;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].kind > PLAIT_PLACE_SHARD)
      refuse_placement(op, "inputs", i, "what is neither replicated nor a shard");
    sharding.in[i] = placement_of(op, in[i], g.shape(op.in[i]), "inputs", i);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].kind > PLAIT_PLACE_PARTIAL ||
        (out[i].kind == PLAIT_PLACE_PARTIAL && out[i].reduction != PLAIT_COMM_SUM &&
         out[i].reduction != PLAIT_COMM_MAX))
      refuse_placement(op, "outputs", i, "a placement or reduction that does not exist");
    sharding.out[i] = out[i].kind == PLAIT_PLACE_PARTIAL
                          ? partial(out[i].reduction)
                          : placement_of(op, out[i], g.shape(op.out[i]), "outputs", i);
  }
  sharding.keeps_zeros = use.keeps_zeros != 0;
  return true;
}

}  // namespace

OpDef plugin_op(const plait_op_item& item, const plait_host* host) {
  OpDef def{.name = item.name};
  def.help = item.help ? item.help : "";
  if (PLAIT_ITEM_HAS(item, n_attrs) && item.attrs) {
    // Elements may be larger or smaller than plait_option is here.
    const auto* first = reinterpret_cast<const char*>(item.attrs);
    for (uint32_t i = 0; i < item.n_attrs; ++i)
      std::memcpy(&def.declared.emplace_back(), first + i * item.attrs->struct_size,
                  std::min(item.attrs->struct_size, sizeof(plait_option)));
    def.attrs = def.declared;
  } else {
    def.takes_any_attr = true;
  }
  def.infer = infer;
  if (item.gradient) def.vjp = vjp;
  if (PLAIT_ITEM_HAS(item, flops) && item.flops) {
    def.flops = flops;
    def.is_product = true;  // its author counts them
  }
  if (PLAIT_ITEM_HAS(item, shard) && item.shard) def.shard = shard;
  def.item = &item;
  def.host = host;
  return def;
}
#undef PLAIT_ITEM_HAS

}  // namespace plait::program

#include "engine/program/differentiate.hpp"

#include <algorithm>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/program/c_builder.hpp"
#include "engine/program/plugin_op.hpp"

namespace plait::program {
namespace {

// The gradient rule of a plugin's op, through the C builder.
void plugin_gradient(Use& use) {
  const plait_op_item* item = use.op.rule->item;
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
  BuildHooks hooks;  // gradient rules have no parameters, no named values
  CBuilder builder(use.g, hooks);
  const auto call = [&] { return item->gradient(builder.get(), &u, use.d_in.data()); };
  check_plugin(try_plugin(plugin_call(*use.op.rule, "gradient"), call), use.op.name, "gradient");
}

}  // namespace

std::vector<ValueId> differentiate(Graph& g, ValueId loss, const std::vector<ValueId>& targets) {
  if (elements(g.shape(loss)) != 1)
    fail_invalid("[program] the loss must be a scalar, found " + text(g.shape(loss)));
  const size_t n_ops = g.ops().size();
  std::vector<ValueId> gradient(g.n_values(), 0);  // of forward values only
  if (!g.value(loss).requires_grad) return std::vector<ValueId>(targets.size(), 0);
  g.backward = true;
  if (const int32_t p = g.value(loss).producer; p >= 0)
    g.stage = g.ops()[static_cast<size_t>(p)].stage;
  gradient[loss] = filled(g, g.shape(loss), 1);

  for (size_t i = n_ops; i-- > 0;) {
    const Op op = g.ops()[i];  // a copy: apply() moves the list
    std::vector<ValueId> d_out;
    bool any_out = false, any_in = false;
    for (ValueId v : op.out) {
      d_out.push_back(gradient[v]);
      any_out = any_out || gradient[v];
    }
    std::vector<char> wanted;
    for (ValueId v : op.in) {
      wanted.push_back(g.value(v).requires_grad);
      any_in = any_in || wanted.back();
    }
    if (!any_out || !any_in) continue;
    g.scope = op.scope;
    g.stage = op.stage;
    const bool has_rule =
        op.rule->item ? op.rule->item->gradient != nullptr : op.rule->gradient != nullptr;
    if (!has_rule)
      fail(PLAIT_ERR_UNIMPLEMENTED,
           "[" + op.scope + "] op '" + op.name + "' has no gradient, but the loss depends on it");
    Use use{g, op, d_out, wanted, std::vector<ValueId>(op.in.size(), 0)};
    if (op.rule->item)
      plugin_gradient(use);
    else
      op.rule->gradient(use);
    for (size_t k = 0; k < op.in.size(); ++k) {
      if (!wanted[k] || !use.d_in[k]) continue;
      const ValueId d = g.as_type(use.d_in[k], g.shape(op.in[k]).dtype);
      if (!same_dims(g.shape(d), g.shape(op.in[k])))
        fail_internal("[" + op.scope + "] gradient of '" + op.name + "' has shape " +
                      text(g.shape(d)) + ", its input " + text(g.shape(op.in[k])));
      ValueId& sum = gradient[op.in[k]];
      // Where another reader of an earlier stage came first, its term is there; gradients only go back.
      g.stage = op.stage;
      if (sum && g.value(sum).producer >= 0)
        g.stage = std::min(g.stage, g.ops()[static_cast<size_t>(g.value(sum).producer)].stage);
      sum = sum ? binary(g, "add", sum, d) : d;
    }
  }
  std::vector<ValueId> result;
  for (ValueId t : targets) result.push_back(gradient[t]);
  g.backward = false;
  g.stage = 0;
  return result;
}

}  // namespace plait::program

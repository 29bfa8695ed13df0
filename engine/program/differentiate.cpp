#include "engine/program/differentiate.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

// Results that are only saved for the backward pass must not reach the loss otherwise.
void refuse_kept_outputs(const Op& op, const std::vector<ValueId>& d_out) {
  for (size_t k = op.def->differentiable_outputs; k < d_out.size(); ++k)
    if (d_out[k])
      fail(PLAIT_ERR_UNIMPLEMENTED, "[" + op.scope + "] " + op.name + ": its output " +
                                        std::to_string(k) +
                                        " has no gradient, but the loss depends on it");
}

}  // namespace

std::vector<ValueId> differentiate(Graph& g, ValueId loss, const std::vector<ValueId>& targets,
                                   ValueId seed) {
  if (elements(g.shape(loss)) != 1)
    fail_invalid("[program] the loss must be a scalar, found " + text(g.shape(loss)));
  const size_t n_ops = g.ops().size();
  std::vector<ValueId> gradient(g.n_values(), 0);  // of forward values only
  if (!g.value(loss).requires_grad) return std::vector<ValueId>(targets.size(), 0);
  g.backward = true;
  if (const int32_t p = g.value(loss).producer; p >= 0)
    g.stage = g.ops()[static_cast<size_t>(p)].stage;
  gradient[loss] = seed ? seed : filled(g, g.shape(loss), 1);

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
    if (!op.def->vjp)
      fail(PLAIT_ERR_UNIMPLEMENTED, "[" + op.scope + "] op '" + op.name + "'" + owner_of(*op.def) +
                                        " has no gradient, but the loss depends on it");
    refuse_kept_outputs(op, d_out);
    VjpContext use{g, op, d_out, wanted, std::vector<ValueId>(op.in.size(), 0)};
    op.def->vjp(use);
    for (size_t k = 0; k < op.in.size(); ++k) {
      if (!wanted[k] || !use.d_in[k]) continue;
      const ValueId d = g.as_type(use.d_in[k], g.shape(op.in[k]).dtype);
      if (!same_dims(g.shape(d), g.shape(op.in[k])))
        fail_internal("[" + op.scope + "] gradient of '" + op.name + "' has shape " +
                      text(g.shape(d)) + ", its input " + text(g.shape(op.in[k])));
      ValueId& sum = gradient[op.in[k]];
      // If a reader of an earlier stage came first, its term belongs to that stage; gradients are
      // only sent to earlier stages.
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

#include "engine/plan/products.hpp"

#include <algorithm>

#include "engine/plan/check.hpp"
#include "engine/program/tf32.hpp"
#include "engine/program/use_libraries.hpp"

namespace plait::plan {

Tf32Products tf32_products(const Plan& plan) {
  Tf32Products n;
  for (const Program& p : plan.programs)
    for (const KernelCall& c : p.calls) {
      const program::Op& op = p.graph->ops()[static_cast<size_t>(c.op)];
      n.of_f32 += program::may_use_tf32(*p.graph, op) ? 1 : 0;
      n.rounded += program::uses_tf32(op) ? 1 : 0;
    }
  return n;
}

namespace {

struct LibraryOps {
  size_t n = 0, n_used = 0;  // ops that a library may compute, and that one does
  std::string refused;       // by which kernels, and why: of one of the others
};
LibraryOps library_ops(const Plan& plan) {
  LibraryOps l;
  for (const Program& p : plan.programs)
    for (const KernelCall& c : p.calls) {
      const program::Op& op = p.graph->ops()[static_cast<size_t>(c.op)];
      if (!program::may_use_library(op)) continue;
      ++l.n;
      if (program::uses_library(op))
        ++l.n_used;
      else if (l.refused.empty())
        l.refused = c.refused;
    }
  return l;
}

}  // namespace

bool can_tune(const plait_kernel_item& kernel) {
  constexpr size_t kSize = offsetof(plait_kernel_item, adopt) + sizeof(kernel.adopt);
  return kernel.struct_size >= kSize && kernel.tune;
}

void warn_products(const Plan& plan, Log* log) {
  if (!log || plan.rank != 0) return;
  const auto warn = [&](const std::string& key, const std::string& why) {
    log->warn(origin_of(plan.experiment, key).text() + ": " + key + " has no effect: " + why);
  };
  const Tf32Products n = tf32_products(plan);
  if (plan.precision.tf32 && n.rounded == 0)
    warn("precision.tf32", n.of_f32 == 0
                               ? "no product has operands of f32"
                               : "device '" + plan.device + "' computes products of f32 in f32");
  const bool tunes = std::any_of(plan.programs.begin(), plan.programs.end(), [](const Program& p) {
    return std::any_of(p.calls.begin(), p.calls.end(),
                       [](const KernelCall& c) { return c.kernel && can_tune(*c.kernel); });
  });
  const auto whole = std::count_if(
      plan.parameters.begin(), plan.parameters.end(),
      [](const Parameter& one) { return one.frozen && one.shape.ndim == 3 && one.format.empty(); });
  if (!plan.precision.frozen_format.empty() && whole > 0)
    log->warn(origin_of(plan.experiment, "precision.frozen").text() + ": precision.frozen = \"" +
              plan.precision.frozen_format + "\" keeps matrices so; " + std::to_string(whole) +
              " weights of three dimensions, as experts have, stay in the type of "
              "precision.compute");
  // In a pipeline another stage may have such weights.
  const bool any = std::any_of(plan.parameters.begin(), plan.parameters.end(), [&](const auto& p) {
    return plan.precision.frozen_format.empty() ? p.frozen : !p.format.empty();
  });
  if (!any && plan.grid.pipeline() == 1 && plan.experiment.precision.frozen != "master" &&
      (plan.precision.is_mixed() || !plan.precision.frozen_format.empty()))
    warn("precision.frozen", plan.precision.frozen_format.empty()
                                 ? "the model has no frozen weights"
                                 : "no product has a frozen weight");
  if (plan.experiment.precision.tune && !tunes)
    warn("precision.tune", "no kernel of device '" + plan.device + "' has several algorithms");
  if (plan.precision.libraries) {
    const LibraryOps l = library_ops(plan);
    if (l.n_used == 0)
      warn("precision.library_attention",
           l.n == 0 ? "the model has no attention"
                    : "device '" + plan.device + "' has no library that takes this attention" +
                          (l.refused.empty() ? "" : "; refused by " + l.refused));
  }
}

}  // namespace plait::plan

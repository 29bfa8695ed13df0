#include "engine/plan/compile.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/verify_program.hpp"
#include "engine/program/arena_offsets.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/op_desc.hpp"
#include "engine/program/overwrite_inputs.hpp"
#include "engine/program/passes.hpp"
#include "engine/program/tf32.hpp"
#include "engine/program/use_libraries.hpp"
#include "engine/program/verify.hpp"

namespace plait::plan {
namespace {

using program::Graph;
using program::Op;
using program::Role;
using program::ValueId;

std::string signature(const Graph& g, const Op& op) {
  std::vector<std::string> in, out;
  for (ValueId v : op.in) in.push_back(program::text(g.shape(v)));
  for (ValueId v : op.out) out.push_back(program::text(g.shape(v)));
  return op.name + "(" + join(in) + ") -> " + join(out);
}

bool accepts(const Plan& plan, const plait_kernel_item& kernel, const program::OpDesc& desc,
             plait_choice& choice) {
  return call_plugin({plan.registry->plugin_of(&kernel), "select", "kernel", kernel.name},
                     [&] { return kernel.select(desc.get(), &choice); }) != 0;
}

void check_workspace(const Plan& plan, const plait_kernel_item& kernel, const Op& op,
                     uint64_t bytes) {
  constexpr uint64_t kMost = uint64_t{1} << 46;  // no device has so much memory
  if (bytes <= kMost) return;
  fail(PLAIT_ERR_PLUGIN,
       strf("[plugin %s] select() of kernel '%s' asks for a workspace of %llu bytes for op '%s' at "
            "%s, expected at most 2^46; tell its author",
            plan.registry->plugin_of(&kernel).c_str(), kernel.name,
            static_cast<unsigned long long>(bytes), op.name.c_str(), op.scope.c_str()));
}

// Kernels that nearly fit: of this op for another device, of an op with nearly this name.
std::string no_kernel_text(const Plan& plan, const Op& op) {
  std::vector<std::string> near;
  for (const std::string& name : plan.registry->item_names(PLAIT_KIND_KERNEL)) {
    const size_t first = name.find('/'), last = name.rfind('/');
    const std::string device = name.substr(0, first), of = name.substr(first + 1, last - first - 1);
    if (of == op.name)
      near.push_back("'" + name.substr(last + 1) + "' for device '" + device + "'");
    else if (device == plan.device && op.def->host && edit_distance(of, op.name) <= 2)
      near.push_back("'" + name.substr(last + 1) + "' for op '" + of + "'");
  }
  const std::string owner = program::owner_of(*op.def);
  return (owner.empty() ? "" : "; the op is" + owner) +
         (near.empty() ? "; no plugin brought one for this op" : "; kernels nearby: " + join(near));
}

// First kernel of the ranked list that accepts.
KernelCall choose(const Graph& g, int32_t index, const Plan& plan) {
  const Op& op = g.ops()[static_cast<size_t>(index)];
  KernelCall call;
  call.op = index;
  if (op.def->collective != program::CollectiveOp::kNone) {
    call.collective = static_cast<int32_t>(op.attrs.integer("id", -1));
    return call;
  }
  const program::OpDesc desc(g, op, plan.threads);
  call.flops = program::flops_of(g, op);
  char detail[256];
  for (const plait_kernel_item* kernel : plan.registry->kernels(op.name, plan.device)) {
    detail[0] = 0;
    plait_choice choice{sizeof(plait_choice), 0, detail, sizeof detail};
    const bool accepted = accepts(plan, *kernel, desc, choice);
    detail[sizeof detail - 1] = 0;
    if (accepted) {
      check_workspace(plan, *kernel, op, choice.workspace);
      call.kernel = kernel;
      call.workspace_bytes = choice.workspace;
      call.detail = detail;
      return call;
    }
    // The device's own plugin is known to the reader, and most kernels are of it.
    const std::string plugin = plan.registry->plugin_of(kernel);
    const bool own = plugin == plan.registry->plugin_of(&plan.registry->device(plan.device));
    call.refused += (call.refused.empty() ? "" : "; ") + std::string(kernel->name) +
                    (own ? "" : " of plugin " + plugin) + ": " + printable(detail);
  }
  fail(PLAIT_ERR_UNIMPLEMENTED,
       "[" + op.scope + "] device '" + plan.device + "' of plugin " +
           plan.registry->plugin_of(&plan.registry->device(plan.device)) + " has no kernel for " +
           signature(g, op) +
           (call.refused.empty() ? no_kernel_text(plan, op) : "; refused by " + call.refused));
}

// When each transient root is first written and last read.
void plan_transient_memory(Program& p) {
  const Graph& g = *p.graph;
  std::vector<program::ArenaBlock> blocks;
  std::vector<int32_t> block_of(g.n_values(), -1);
  auto touch = [&](ValueId v, int32_t at) {
    const ValueId storage = g.storage_of(v);
    if (g.value(storage).role == Role::kPersistent) return;
    int32_t& b = block_of[storage];
    if (b < 0) {
      b = static_cast<int32_t>(blocks.size());
      blocks.push_back({program::bytes(g.shape(storage)), at, at, 0});
    }
    blocks[static_cast<size_t>(b)].last = at;
  };
  for (size_t i = 0; i < g.ops().size(); ++i) {
    for (ValueId v : g.ops()[i].out) touch(v, static_cast<int32_t>(i));
    for (ValueId v : g.ops()[i].in) touch(v, static_cast<int32_t>(i));
  }
  const size_t n_values = blocks.size();
  for (const KernelCall& c : p.calls) blocks.push_back({c.workspace_bytes, c.op, c.op, 0});
  p.transient_bytes = program::assign_offsets(blocks);
  for (size_t i = 0; i < p.calls.size(); ++i) {
    KernelCall& c = p.calls[i];
    c.workspace = blocks[n_values + i].offset;
    const Op& op = g.ops()[static_cast<size_t>(c.op)];
    for (const auto* list : {&op.in, &op.out})
      for (ValueId v : *list) {
        const ValueId storage = g.storage_of(v);
        const auto& value = g.value(storage);
        if (value.role == Role::kPersistent)
          c.operands.push_back({value.buffer.segment, value.buffer.offset + g.storage_offset(v)});
        else
          c.operands.push_back({kTransient, blocks[static_cast<size_t>(block_of[storage])].offset +
                                                g.storage_offset(v)});
      }
  }
}

}  // namespace

bool has_kernel(const Plan& plan, const Graph& g, const Op& op) {
  const program::OpDesc desc(g, op, plan.threads);
  char detail[256];
  plait_choice choice{sizeof(plait_choice), 0, detail, sizeof detail};
  const auto& kernels = plan.registry->kernels(op.name, plan.device);
  return std::any_of(kernels.begin(), kernels.end(),
                     [&](const auto* kernel) { return accepts(plan, *kernel, desc, choice); });
}

namespace {

// The passes that need no kernels but for the question whether one takes a folded product, or a
// result in the memory of an operand.
void optimize(Graph& g, const std::string& name, const Plan& plan) {
  const auto verify = [&](const char* pass) { program::verify_after(pass, name, g); };
  verify("writing it");
  const auto runs = [&](const Graph& in, const Op& op) { return has_kernel(plan, in, op); };
  program::fold_matmul(g, runs);
  verify("fold_matmul");
  program::fuse_maps(g);
  verify("fuse_maps");
  program::hoist_collectives(g);
  verify("hoist_collectives");
  program::overwrite_inputs(g, runs);
  verify("overwrite_inputs");
  if (plan.precision.libraries) {
    program::use_libraries(g, runs);
    verify("use_libraries");
  }
  if (!plan.precision.tf32) return;
  program::use_tf32(g, runs);
  verify("use_tf32");
}

}  // namespace

Program compile(std::string name, std::unique_ptr<Graph> graph, const Plan& plan) {
  optimize(*graph, name, plan);
  Program p;
  p.name = std::move(name);
  p.graph = std::move(graph);
  for (size_t i = 0; i < p.graph->ops().size(); ++i) {
    const Op& op = p.graph->ops()[i];
    if (op.def->is_view) continue;
    const bool nothing = std::all_of(op.out.begin(), op.out.end(), [&](ValueId v) {
      return program::elements(p.graph->shape(v)) == 0;
    });
    if (nothing) continue;
    p.calls.push_back(choose(*p.graph, static_cast<int32_t>(i), plan));
    p.flops += p.calls.back().flops;
  }
  plan_transient_memory(p);
  if (program::verify_enabled()) verify_program(plan, p);
  return p;
}

}  // namespace plait::plan

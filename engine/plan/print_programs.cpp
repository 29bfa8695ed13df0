#include "engine/plan/print_programs.hpp"

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/text/print.hpp"

namespace plait::plan {
namespace {

// "zero_grad, 3 x forward_backward, update": the launches in order.
std::string launches_text(const Plan& plan, const EntryPoint& entry) {
  std::vector<std::string> all;
  for (size_t i = 0, end = 0; i < entry.launches.size(); i = end) {
    const int32_t program = entry.launches[i].program;
    while (end < entry.launches.size() && entry.launches[end].program == program) ++end;
    if (program < 0) continue;
    all.push_back((end - i > 1 ? strf("%zu x ", end - i) : "") +
                  plan.programs.at(static_cast<size_t>(program)).name);
  }
  return join(all);
}

std::string head(const Plan& plan) {
  std::string t =
      strf("# rank %d of %d on %s\n", plan.rank, plan.grid.ranks(), plan.device.c_str());
  for (size_t i = 0; i < plan.storage.segments().size(); ++i) {
    const Segment& s = plan.storage.segments()[i];
    t += strf("# segment %zu: %s, %llu bytes of %s", i, printable(s.name).c_str(),
              static_cast<unsigned long long>(s.bytes), category_name(s.category));
    t += s.slots > 1 ? strf(", %d slots\n", s.slots) : "\n";
  }
  for (const EntryPoint& e : plan.entry_points)
    t += "# entry point " + e.name + ": " + launches_text(plan, e) + "\n";
  return t +
         "# behind an op: its kernel, and at which byte of the arena its results and workspace "
         "lie\n";
}

std::string comment(const Plan& plan, const Program& p, const KernelCall& c) {
  if (c.collective >= 0) {
    const Collective& e = plan.collectives.at(static_cast<size_t>(c.collective));
    return strf("%s of %llu %s, %s: ", kind_name(e.kind), static_cast<unsigned long long>(e.n),
                program::dtype_name(e.dtype), topology::axis_name(e.axis)) +
           e.name;
  }
  std::vector<std::string> parts{c.kernel->name};
  const program::Op& op = p.graph->ops()[static_cast<size_t>(c.op)];
  for (size_t k = 0; k < op.out.size(); ++k)
    if (const BufferRef at = c.operands[op.in.size() + k]; at.segment == kTransient)
      parts.push_back(strf("%%%u at %llu", op.out[k], static_cast<unsigned long long>(at.offset)));
  if (c.workspace_bytes > 0)
    parts.push_back(strf("workspace at %llu", static_cast<unsigned long long>(c.workspace)));
  return join(parts);
}

std::string text_of(const Plan& plan, const Program& p) {
  std::vector<const KernelCall*> call_of(p.graph->ops().size(), nullptr);
  for (const KernelCall& c : p.calls) call_of[static_cast<size_t>(c.op)] = &c;
  program::PrintOptions options{p.name};
  options.comment = [&](size_t op) {
    return call_of[op] ? comment(plan, p, *call_of[op]) : std::string();
  };
  return strf("\n# arena of %llu bytes\n", static_cast<unsigned long long>(p.transient_bytes)) +
         program::print(*p.graph, options);
}

}  // namespace

std::string print_programs(const Plan& plan, std::string_view name) {
  std::string text = head(plan);
  std::vector<std::string> names;
  bool found = false;
  for (const Program& p : plan.programs) {
    names.push_back(p.name);
    if (!name.empty() && p.name != name) continue;
    found = true;
    text += text_of(plan, p);
  }
  if (!found)
    fail_not_found("[plan] there is no program '" + std::string(name) + "'" +
                   did_you_mean(nearest(std::string(name), names)) + "; the plan has " +
                   join(names));
  return text;
}

}  // namespace plait::plan

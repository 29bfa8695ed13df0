#include "tests/unit/plan/plan_text.hpp"

#include <nlohmann/json.hpp>

#include "engine/base/hash.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/describe.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/print_programs.hpp"
#include "engine/program/shape.hpp"

namespace plait::test {
namespace {

using plan::BufferRef;
using plan::Plan;

std::string place(const BufferRef& at) {
  if (at.segment < 0) return "none";
  return std::to_string(at.segment) + ":" + std::to_string(at.offset);
}

// "2, 0 of 4, 3 at 5:32": a block's offset, its extent, and where it lies.
std::string block(const plan::LocalBlock& b) {
  std::vector<std::string> offset, extent;
  for (const int64_t n : b.box.offset) offset.push_back(std::to_string(n));
  for (const int64_t n : b.box.extent) extent.push_back(std::to_string(n));
  return "block [" + join(offset) + "] of [" + join(extent) + "] at " + place(b.at) + "\n";
}

void add_reports(const Plan& plan, std::string& text) {
  const auto all = nlohmann::ordered_json::parse(plan::describe(plan));
  for (const auto& [key, value] : all.items()) {
    if (key == "programs") {
      for (const auto& program : value)
        for (const auto& kernel : program["kernels"])
          if (kernel.contains("collective"))
            text += "call in " + program["name"].get<std::string>() + ": " +
                    kernel["collective"].dump() + "\n";
      continue;
    }
    const bool rows = value.is_array() && !value.empty() && value[0].is_object();
    text += key + ": " + (rows ? "" : value.dump()) + "\n";
    if (rows)
      for (const auto& row : value) text += "  " + row.dump() + "\n";
  }
}

void add_groups(const Plan& plan, std::string& text) {
  for (const plan::ParameterGroup& g : plan.groups) {
    text += strf("group %s: %lld elements, norm %zu, rate at %s\n", g.name.c_str(),
                 static_cast<long long>(g.elements), g.norm, place(g.learning_rate_at).c_str());
    for (const plan::Bucket& b : g.buckets)
      text += strf("  bucket at %lld of %lld, shard at %lld of %lld, owner %d, chunk %d\n",
                   static_cast<long long>(b.begin), static_cast<long long>(b.elements),
                   static_cast<long long>(b.shard_begin), static_cast<long long>(b.shard_elements),
                   b.owner, b.chunk);
  }
  for (const plan::Parameter& p : plan.parameters) {
    text += strf("parameter %s: group %d, at %lld, value %s, gradient %s, squares %s\n",
                 p.name.c_str(), p.group, static_cast<long long>(p.flat_offset),
                 place(p.value).c_str(), place(p.gradient).c_str(), place(p.squares).c_str());
    if (p.sharded)
      text += strf("  sharded along %d, units of %lld\n", p.shard_dim,
                   static_cast<long long>(p.shard_unit));
    for (const plan::LocalBlock& b : plan::local_parameter_blocks(plan, p)) text += "  " + block(b);
    for (const plan::StateBlocks& s : plan::local_states(plan, p))
      for (const plan::LocalBlock& b : s.blocks) text += "  state " + s.name + " " + block(b);
  }
}

void add_results(const Plan& plan, std::string& text) {
  for (const plan::Model& m : plan.models) {
    text +=
        strf("model %s: loss %s, norm %s, finite %s, %lld weights, %lld means\n", m.name.c_str(),
             place(m.loss).c_str(), place(m.norm).c_str(), place(m.finite).c_str(),
             static_cast<long long>(m.n_weights), static_cast<long long>(m.n_means));
    for (const plan::GradientNorm& n : m.norms)
      text += strf("  norm '%s' %s, active %s, step %lld, %zu weights\n", n.adapter.c_str(),
                   place(n.norm).c_str(), place(n.active).c_str(), static_cast<long long>(n.step),
                   n.weights.size());
  }
  text += strf("step sums: %lld, loss rows: %g, hash: %s, digest: %s\n",
               static_cast<long long>(plan.n_step_sums()), plan.loss_rows,
               hex64(plan.hash()).c_str(), hex64(plan.pipeline.digest).c_str());
  for (const plan::Collective& c : plan.collectives)
    text += "collective " + plan::text(c) + (c.slotted ? " slotted" : "") +
            (c.own_replica ? " own replica" : "") +
            strf(" peer %u, channel %u\n", c.peer, c.channel);
  for (const plan::AdapterPrograms::Merge& m : plan.adapters.merges)
    text += strf("merge '%s' '%s' by '%s' changes %zu, refused: '%s'\n", m.model.c_str(),
                 m.adapter.c_str(), m.entry_point.c_str(), m.changed.size(), m.refused.c_str());
}

void add_generation(const Plan& plan, std::string& text) {
  const auto add = [&](const char* name, const plan::GenerationInputs& in) {
    text += strf("%s: %lld samples of %lld tokens, %llu bytes from %s\n", name,
                 static_cast<long long>(in.samples), static_cast<long long>(in.tokens),
                 static_cast<unsigned long long>(in.bytes), place(in.ids).c_str());
  };
  if (plan.generation.slots == 0) return;
  add("prefill", plan.generation.prefill);
  add("decode", plan.generation.decode);
  for (const plan::IndexRange& r : plan.generation.ids)
    text += strf("ids: %lld to %lld, read by %s\n", static_cast<long long>(r.least),
                 static_cast<long long>(r.end), r.reader.c_str());
}

void add_ranges(const Plan& plan, std::string& text) {
  const auto add = [&](const std::string& of, const plan::Field& f, const plan::IndexRange& r) {
    text += strf("range of %s in %s: %lld to %lld%s, read by %s, made by %s%s\n", f.name.c_str(),
                 of.c_str(), static_cast<long long>(r.least), static_cast<long long>(r.end),
                 r.labels ? ", labels" : "", r.reader.c_str(), r.maker.c_str(),
                 r.allowed.empty() ? "" : (", " + r.allowed).c_str());
  };
  for (const plan::EntryPoint& e : plan.entry_points)
    for (const plan::Field& f : e.feed.fields)
      for (const plan::IndexRange& r : f.index_ranges) add(e.name, f, r);
}

}  // namespace

std::string figures_text(const Plan& plan) {
  std::string text;
  add_reports(plan, text);
  add_groups(plan, text);
  add_results(plan, text);
  add_generation(plan, text);
  add_ranges(plan, text);
  return text;
}

std::string programs_text(const Plan& plan, const std::vector<std::string>& names) {
  std::string text;
  for (const plan::Program& p : plan.programs)
    text += strf("program %s: order %d, slots %d from %d\n", p.name.c_str(), p.order, p.slots,
                 p.first_slot);
  bool first = true;
  for (const std::string& name : names) {
    const std::string one = plan::print_programs(plan, name);
    text += first ? one : one.substr(one.find("\n# arena"));
    first = false;
  }
  return text;
}

}  // namespace plait::test

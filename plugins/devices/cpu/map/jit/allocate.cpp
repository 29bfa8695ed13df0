#include "plugins/devices/cpu/map/jit/allocate.hpp"

#include <algorithm>
#include <utility>

#include "plugins/devices/cpu/map/jit/section.hpp"

namespace plait::cpu::jit {
namespace {

// Values computed outside the level that uses them get a slot in the frame. Returns the number of
// slots.
int assign_slots(const Code& code, Homes& homes) {
  int n = 0;
  const auto need = [&](Value v, Level user) {
    const Level level = code.nodes[v].level;
    if (level != Level::kLiteral && level != user && homes.slot[v] < 0)
      homes.slot[v] = static_cast<int16_t>(n++);
  };
  for (const Node& node : code.nodes)
    for (int k = 0; k < arity(node.op); ++k) need(node.args[k], node.level);
  for (const Store& s : code.stores) need(s.value, Level::kBody);
  return n;
}

// Outer values in order of their uses in the body, most used first.
std::vector<Value> outer_values(const Code& code) {
  std::vector<int> uses(code.nodes.size(), 0);
  for (const Node& node : code.nodes)
    if (node.level == Level::kBody)
      for (int k = 0; k < arity(node.op); ++k) ++uses[node.args[k]];
  for (const Store& s : code.stores) ++uses[s.value];
  std::vector<Value> values;
  for (Value v = 0; v < static_cast<Value>(code.nodes.size()); ++v)
    if (code.nodes[v].level != Level::kBody && uses[v]) values.push_back(v);
  std::stable_sort(values.begin(), values.end(),
                   [&](Value a, Value b) { return uses[a] > uses[b]; });
  return values;
}

Step move_to(int r, OperandLocation from) {
  Step step;
  step.kind = Step::kMove;
  step.to = static_cast<int16_t>(r);
  step.from[0] = from;
  return step;
}

}  // namespace

Program allocate(const Code& code, int registers) {
  Homes homes;
  homes.slot.assign(code.nodes.size(), -1);
  homes.literal.assign(code.nodes.size(), -1);
  homes.held.assign(code.nodes.size(), -1);
  Program program;
  program.n_slots = assign_slots(code, homes);

  // Registers that the body does not need hold the most used outer values.
  SectionAllocator probe(code, Level::kBody, registers, homes);
  probe.run();
  int left = registers;
  for (Value v : outer_values(code)) {
    if (left <= std::max(probe.most_in_use(), 8)) break;
    const bool is_row = code.nodes[v].level == Level::kRow;
    (is_row ? program.row_hoists : program.call_hoists)
        .push_back(move_to(--left, homes.outside(code, v)));
    homes.held[v] = static_cast<int16_t>(left);
  }

  // The registers that hold outer values are filled between the sections, so call and row code
  // reads these values from memory, but must not use the registers.
  const std::vector<int16_t> held =
      std::exchange(homes.held, std::vector<int16_t>(code.nodes.size(), -1));
  SectionAllocator call(code, Level::kCall, left, homes), row(code, Level::kRow, left, homes);
  call.run();
  row.run();
  homes.held = held;
  SectionAllocator body(code, Level::kBody, left, homes);
  body.run();
  program.call = call.take_steps();
  program.row = row.take_steps();
  program.body = body.take_steps();
  program.literals = std::move(homes.literals);
  program.n_spills = std::max({call.n_spills(), row.n_spills(), body.n_spills()});
  return program;
}

}  // namespace plait::cpu::jit

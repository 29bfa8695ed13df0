// Register allocation of one loop level; used by allocate.cpp.
#pragma once

#include <vector>

#include "plugins/devices/cpu/map/jit/allocate.hpp"

namespace plait::cpu::jit {

// Locations of values outside the current section; shared by all sections of a program.
struct Homes {
  std::vector<int16_t> slot;     // of values used by an inner level, else -1
  std::vector<int16_t> literal;  // index of literals used from memory, else -1
  std::vector<int16_t> held;     // register that holds an outer value during the body, else -1
  std::vector<uint32_t> literals;

  OperandLocation outside(const Code& code, Value v);
};

class SectionAllocator {
 public:
  SectionAllocator(const Code& code, Level level, int registers, Homes& homes);
  void run();

  std::vector<Step> take_steps() { return std::move(steps_); }
  int most_in_use() const { return most_in_use_; }
  int n_spills() const { return n_spills_; }

 private:
  struct Item {  // a node, or a store
    Value node = kNoValue;
    int store = -1;
  };
  static constexpr int kFree = -1;

  void order_items();
  void count_uses();
  void place_node(Value v, int at);
  void place_store(const Store& s, int at);

  bool is_inside(Value v) const { return code_.nodes[v].level == level_; }
  bool is_zero(Value v) const;
  OperandLocation where(Value v);                // the register if it is in one, else memory
  OperandLocation in_register(Value v, int at);  // loads it into a register if necessary
  int take_register(int at);
  void drop(Value v);
  int next_use(Value v, int after) const;
  void release_dead(const Node& n, int at);
  void prefer_memory_last(Node& n);

  const Code& code_;
  const Level level_;
  Homes& homes_;
  std::vector<Step> steps_;
  std::vector<Item> items_;
  std::vector<std::vector<int>> uses_;  // of each value, ascending item positions
  std::vector<int> register_of_, spill_of_;
  std::vector<Value> value_in_;  // by register; kFree
  std::vector<bool> locked_;     // by register: read by the current step
  std::vector<int> loaned_;      // registers with outer values, freed again after the step
  int in_use_ = 0, most_in_use_ = 0, n_spills_ = 0;
};

}  // namespace plait::cpu::jit

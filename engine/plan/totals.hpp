// Sums over a plan: the memory of its rank, and what an entry point computes and sends.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/json.hpp"
#include "engine/plan/plan.hpp"

namespace plait::plan {

// In bytes.
struct MemoryUse {
  std::array<uint64_t, kCategories> of_category{};  // persistent memory of the device
  uint64_t transient = 0;
  uint64_t arena = 0;  // all memory of the device: the above together
  // Memory of the host.
  uint64_t dataset = 0, prefetch = 0, checkpoint_copy = 0;
  uint64_t total() const { return arena + dataset + prefetch + checkpoint_copy; }
  bool operator==(const MemoryUse&) const = default;
};

MemoryUse memory_of(const Plan& plan);
// As the object that `plait plan` shows.
void write_memory(JsonWriter& w, const MemoryUse& memory);

// The least that this rank must send in one run of a program, whatever the backend does.
double sent_bytes(const Plan& plan, const Program& program);

struct Totals {
  double flops = 0, sent_bytes = 0;
  uint64_t transient_bytes = 0;  // the largest of its programs
  bool operator==(const Totals&) const = default;
};
// Over the launches of an entry point.
Totals totals_of(const Plan& plan, const EntryPoint& entry);

}  // namespace plait::plan

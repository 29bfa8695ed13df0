// What `plait plan` prints for people. plan and job: the records of the ABI.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// Parameters and memory alone, what fits a screen, or also every parameter and every kernel.
enum class PlanDetail { kFigures, kScreen, kAll };
void show_plan(Terminal& t, const Json& plan, PlanDetail detail);
// The element type and the dims of each operand and result, op by op.
void show_types(Terminal& t, const Json& plan);
// "shared memory of 12 MiB with all 2 ranks on one machine (shm); of this one 20 GiB are free", of
// each backend through which ranks share any.
std::vector<std::string> shared_memory_lines(const Json& plan);
// "2 ranks need 36 GiB, and this machine has 23.5 GiB", of ranks as this plan's; "": it has enough.
// Memory that a device has beside that of the host does not count.
std::string memory_of_ranks(const Json& plan, int64_t ranks);
// Whether the calls of all ranks match, and which need most memory.
void show_every_rank(Terminal& t, const Json& job);

}  // namespace plait::cli

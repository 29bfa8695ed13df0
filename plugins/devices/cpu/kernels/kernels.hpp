// The kernels of the CPU device, by family; each function appends its items. Names end up in
// PLAIT_EXPLAIN.
#pragma once

#include <vector>

#include <plait/plugin.hpp>

namespace plait::cpu {

constexpr const char* kDevice = "cpu";
constexpr int32_t kFastPriority = 10;  // plain kernels have priority 0

// The list that the build makes of this folder: each file X.cpp appends its items in add_X(out).
void add_families(std::vector<plait_kernel_item>& out);

}  // namespace plait::cpu

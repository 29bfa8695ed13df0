// The kernels of the CPU device, by family; each function appends its items. Names end up in PLAIT_EXPLAIN.
#pragma once

#include <vector>

#include <plait/plugin.hpp>

namespace plait::cpu {

constexpr const char* kDevice = "cpu";
constexpr int32_t kFastPriority = 10;  // plain kernels have priority 0

void add_matmul(std::vector<plait_kernel_item>& out);
void add_matmul_f64(std::vector<plait_kernel_item>& out);
void add_map(std::vector<plait_kernel_item>& out);
void add_reduce(std::vector<plait_kernel_item>& out);
void add_softmax(std::vector<plait_kernel_item>& out);
void add_cross_entropy(std::vector<plait_kernel_item>& out);
void add_norm(std::vector<plait_kernel_item>& out);
void add_gather(std::vector<plait_kernel_item>& out);
void add_layout(std::vector<plait_kernel_item>& out);
void add_random(std::vector<plait_kernel_item>& out);

}  // namespace plait::cpu

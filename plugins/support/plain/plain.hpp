// Plain kernels: one for every core op and element type, loops over rows of doubles, no thread, no intrinsic. They are all of
// the device `reference`, and the last entry (priority 0) of every list of `cpu`.
#pragma once

#include <string>
#include <vector>

#include <plait/plugin.hpp>

namespace plait::support {

// The items for one device, all called "plain". `device` is a literal; so the items live as long as the vector.
std::vector<plait_kernel_item> plain_kernels(const char* device);

// Of each family; each appends its items.
void add_plain_map(std::vector<plait_kernel_item>& out, const char* device);
void add_plain_matmul(std::vector<plait_kernel_item>& out, const char* device);
void add_plain_reduce(std::vector<plait_kernel_item>& out, const char* device);
void add_plain_softmax(std::vector<plait_kernel_item>& out, const char* device);
void add_plain_cross_entropy(std::vector<plait_kernel_item>& out, const char* device);
void add_plain_norm(std::vector<plait_kernel_item>& out, const char* device);
void add_plain_gather(std::vector<plait_kernel_item>& out, const char* device);
void add_plain_layout(std::vector<plait_kernel_item>& out, const char* device);
void add_plain_random(std::vector<plait_kernel_item>& out, const char* device);

}  // namespace plait::support

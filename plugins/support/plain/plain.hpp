// Plain kernels: one for every core op and element type, loops over rows of doubles, no thread, no
// intrinsic. They are all of the device `reference`, and the last entry (priority 0) of every list
// of `cpu`.
#pragma once

#include <string>
#include <vector>

#include <plait/plugin.hpp>

namespace plait::support {

// The items for one device, all called "plain". `device` is a literal; so the items live as long as
// the vector.
std::vector<plait_kernel_item> plain_kernels(const char* device);

// The list that the build makes of this folder: each file X.cpp appends its items in
// add_plain_X(out, device).
void add_plain_families(std::vector<plait_kernel_item>& out, const char* device);

}  // namespace plait::support

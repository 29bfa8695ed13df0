// The algorithms of kernels, chosen by measuring and alike on all ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/runtime/kernel_cache.hpp"

namespace plait::runtime {

// The texts of all ranks, by rank, of which this one gives `text`. Collective.
using AllGather = std::function<std::vector<std::string>(const std::string& text)>;

// Of all ranks that prepared a kernel of one descriptor the first one measures, and all of them
// adopt what it found. Before anything is captured. Errors: those of tune() and adopt(), and
// PLAIT_ERR_PEER. [blocks: yes]
void tune(const std::vector<KernelCache::Tunable>& kernels, plait_device* device, int32_t rank,
          const AllGather& all_gather);

}  // namespace plait::runtime

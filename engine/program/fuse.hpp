// Fusion of element-wise ops.
#pragma once

#include "engine/program/graph.hpp"

namespace plait::program {

// Fuses element-wise ops of one shape into one `map`, and scalar arithmetic into its readers.
void fuse_maps(Graph& g);

}  // namespace plait::program

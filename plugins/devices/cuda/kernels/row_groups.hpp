// Sizes that the fast kernels of rows and the code that launches them agree on.
#pragma once

namespace plait::cuda {

constexpr int kRowBlock = 256;                   // threads of a block
constexpr int kRowKept = 32;                     // elements of a row that a thread keeps
constexpr int kWarpRow = 32 * kRowKept;          // longest row of a warp
constexpr int kBlockRow = kRowBlock * kRowKept;  // longest row that a block keeps

}  // namespace plait::cuda

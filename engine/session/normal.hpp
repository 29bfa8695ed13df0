// Standard normal numbers of the initial values, many at once.
#pragma once

#include <cstdint>
#include <span>

namespace plait::session {

// The standard normal number of element e: Box and Muller 1958, on the pair of words of Philox
// block e / 4 that the element shares with its neighbour. In the arithmetic of the C library.
double normal(uint64_t e, uint64_t stream, uint64_t seed);

inline constexpr int kNormalBlocks = 64;                   // Philox blocks computed at once
inline constexpr int kNormalElements = 4 * kNormalBlocks;  // elements of these blocks

// out[i] = float(mean + deviation * normal(4 * block + i)), i < kNormalElements.
// Logarithm, sine and cosine are polynomials. Returns false where a result lies so near to the
// middle between two floats that normal() may round to the other one: the caller then computes the
// block with normal().
using NormalKernel = bool (*)(uint64_t block, uint64_t stream, uint64_t seed, double mean,
                              double deviation, float* out);

// What this processor runs, best first; the last one runs everywhere. All give the same floats.
std::span<const NormalKernel> normal_kernels();

}  // namespace plait::session

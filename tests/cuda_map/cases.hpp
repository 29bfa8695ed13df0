// The calls of map that generated code is tested with, and what they must compute.
#pragma once

#include <string>
#include <vector>

#include "plugins/devices/cuda/map/source.hpp"
#include "tests/conformance/case.hpp"
#include "tests/conformance/runner.hpp"

namespace cuda_map {

using conformance::Bytes;
using conformance::Case;

// Those of tests/conformance, but for the ones without elements.
std::vector<Case> conformance_cases();
// Expressions of operations that have one right result, on operands of several types and shapes;
// the same each time.
Case random_case(uint32_t seed);
inline constexpr uint32_t kRandomCases = 300;

// The source of every different text among the cases, with one case that it serves.
struct Generated {
  Case c;
  plait::cuda::map::Source source;
};
std::vector<Generated> generate(const std::vector<Case>& cases);
// Those of the conformance cases and of `random` random ones.
std::vector<Generated> all_sources(uint32_t random);

// The outputs by kit::evaluate_map(), every result rounded as the arithmetic of the map does, f32
// or f64; FMA rounds once.
std::vector<Bytes> evaluate(const Case& c);

}  // namespace cuda_map

// The golden values of tests/golden.
#pragma once

#include <map>
#include <string>

#include "tests/unit/support/fake_builder.hpp"

namespace plait::fake {

// The tensors of tests/golden/<file>.safetensors by name, "CASE/TENSOR".
std::map<std::string, Tensor> read_golden(const std::string& file);

// Whether a and b have the same extents, and values that differ by less than `tolerance` relative
// to 1 + |b|.
bool close(const Tensor& a, const Tensor& b, double tolerance = 1e-12);

}  // namespace plait::fake

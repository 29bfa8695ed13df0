// Shapes: plait_shape and the small arithmetic that everybody needs.
#pragma once

#include <plait/tensor.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kit/dtype.hpp"

namespace plait::kit {

// A shape, an attribute or an operand is wrong. Each side turns it into an error of its own:
// PLAIT_ERR_INVALID.
class Invalid : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Overflow-checked number of elements and bytes; throw Invalid.
int64_t elements(const plait_shape& s);
uint64_t bytes(const plait_shape& s);
bool same_dims(const plait_shape& a, const plait_shape& b);
bool same(const plait_shape& a, const plait_shape& b);
std::string text(const plait_shape& s);  // "f32 (32, 120)"

}  // namespace plait::kit

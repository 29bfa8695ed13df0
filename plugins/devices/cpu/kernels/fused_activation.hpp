// The activation of a product by its name.
#pragma once

#include <string_view>

#include "plugins/devices/cpu/matmul/matmul.hpp"
#include "plugins/support/activation.hpp"

namespace plait::cpu {

// support::Activation lists the same functions in the same order. Throws kit::Invalid for a name
// that is none.
inline Activation fused_activation(std::string_view name) {
  return static_cast<Activation>(support::activation_named(name));
}

}  // namespace plait::cpu

// The declaration of a key that counts something.
#pragma once

#include "kit/option_decl.hpp"

namespace plait::config {

constexpr plait_option count(const char* name, const char* default_value, double min,
                             const char* unit, const char* help) {
  plait_option o = kit::at_least(kit::int_option(name, default_value, help), min);
  o.unit = unit;
  return o;
}

}  // namespace plait::config

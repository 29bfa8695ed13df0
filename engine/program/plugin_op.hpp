// Ops that plugins bring.
#pragma once

#include "engine/base/plugin_call.hpp"
#include "engine/plugin/host.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {

// A call of one of the op's functions, as messages name it.
inline PluginCall plugin_call(const Rule& rule, const char* function) {
  return {static_cast<const plugin::Host*>(rule.host)->plugin(), function, "op", rule.name};
}

}  // namespace plait::program

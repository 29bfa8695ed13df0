// Definitions of ops of plugins.
#pragma once

#include "engine/base/plugin_call.hpp"
#include "engine/plugin/host.hpp"
#include "engine/program/op_def.hpp"

namespace plait::program {

// The name of a call of one of the op's functions, for messages.
inline PluginCall plugin_call(const OpDef& def, const char* function) {
  return {static_cast<const plugin::Host*>(def.host)->plugin(), function, "op", def.name};
}

// The item and its host outlive the definition.
OpDef plugin_op(const plait_op_item& item, const plait_host* host);

}  // namespace plait::program

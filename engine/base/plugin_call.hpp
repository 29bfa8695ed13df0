// Calls into plugins, where an exception could unwind into the engine. The ABI lets none out of a plugin; one that gets out all the
// same is an error like any other, which says whose it is. A call that returns costs no more than it did.
#pragma once

#include <plait/plugin.h>

#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace plait {

// A call as messages name it: "[plugin X] build() of layer 'Y'". Borrowed for the call.
struct PluginCall {
  std::string_view plugin;  // "": the message begins with the function
  const char* function;     // "build"
  const char* kind;
  std::string_view item;
};

// What is in flight as the error that the plugin should have returned: PLAIT_ERR_PLUGIN, or PLAIT_ERR_MEMORY. Only inside a catch
// block.
Error plugin_exception(const PluginCall& at);
plait_error* plugin_exception_to_c(const PluginCall& at) noexcept;
void log_plugin_exception(const plait_host* host, const PluginCall& at) noexcept;

// Of functions that return a plait_error.
template <class F>
plait_error* try_plugin(const PluginCall& at, F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    return plugin_exception_to_c(at);
  }
}

// Of functions that return what they are asked for.
template <class F>
auto call_plugin(const PluginCall& at, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    throw plugin_exception(at);
  }
}

// Of functions that take leave and return nothing: close(), release(), abort(). An exception goes to the log of `host`, where there
// is one.
template <class F>
void call_plugin_noexcept(const plait_host* host, const PluginCall& at, F&& f) noexcept {
  try {
    f();
  } catch (...) {
    log_plugin_exception(host, at);
  }
}

}  // namespace plait

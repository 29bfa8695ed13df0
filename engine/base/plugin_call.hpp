// Calls into plugins, where an exception could unwind into the engine. The ABI forbids plugins to
// let exceptions out; one that escapes anyway becomes an ordinary error that names the plugin. A
// call on a watched thread that does not return is named in the log (call_watch.hpp).
#pragma once

#include <plait/plugin.h>

#include <string>
#include <string_view>

#include "engine/base/call_watch.hpp"
#include "engine/base/error.hpp"

namespace plait {

// The name of a call in messages: "[plugin X] build() of layer 'Y'". Borrowed for the call.
struct PluginCall {
  std::string_view plugin;  // "": the message begins with the function name
  const char* function;     // "build"
  const char* kind;
  std::string_view item;
};

// "build() of layer 'Y'"
std::string text_of(const PluginCall& at);

// Converts the exception in flight to the error that the plugin should have returned:
// PLAIT_ERR_PLUGIN, or PLAIT_ERR_MEMORY. Only inside a catch block.
Error plugin_exception(const PluginCall& at);
plait_error* plugin_exception_to_c(const PluginCall& at) noexcept;
void log_plugin_exception(const plait_host* host, const PluginCall& at) noexcept;

// For functions that return a plait_error.
template <class F>
plait_error* try_plugin(const PluginCall& at, F&& f) noexcept {
  try {
    const WatchedCall watched(at);
    return f();
  } catch (...) {
    return plugin_exception_to_c(at);
  }
}

// Throws if a plugin returned an error: "[plugin X] DOING failed in build() of layer 'Y'", or
// without `doing` "[plugin X] build() of layer 'Y' failed", with the plugin's own error as cause.
// Consumes the error.
void check_plugin(plait_error* error, const PluginCall& at, const std::string& doing);

// The same for the error that f() returns or throws.
template <class F>
void check_plugin(const PluginCall& at, const std::string& doing, F&& f) {
  if (plait_error* e = try_plugin(at, f)) check_plugin(e, at, doing);
}

// For functions that return their result directly.
template <class F>
auto call_plugin(const PluginCall& at, F&& f) -> decltype(f()) {
  try {
    const WatchedCall watched(at);
    return f();
  } catch (...) {
    throw plugin_exception(at);
  }
}

// For clean-up functions that return nothing: close(), release(), abort(). An exception is written
// to the log of `host`, if there is one.
template <class F>
void call_plugin_noexcept(const plait_host* host, const PluginCall& at, F&& f) noexcept {
  try {
    const WatchedCall watched(at);
    f();
  } catch (...) {
    log_plugin_exception(host, at);
  }
}

}  // namespace plait

#include "engine/base/plugin_call.hpp"

#include <new>

#include "engine/base/c_error.hpp"

namespace plait {

std::string text_of(const PluginCall& at) {
  return std::string(at.function) + "() of " + at.kind + " '" + std::string(at.item) + "'";
}

void check_plugin(plait_error* error, const PluginCall& at, const std::string& doing) {
  if (!error) return;
  auto cause = std::make_shared<const Error>(from_c(error));
  const uint32_t code = cause->code();
  const std::string what =
      doing.empty() ? text_of(at) + " failed" : doing + " failed in " + text_of(at);
  throw Error(code, "[plugin " + std::string(at.plugin) + "] " + what, std::move(cause));
}

Error plugin_exception(const PluginCall& at) {
  uint32_t code = PLAIT_ERR_PLUGIN;
  std::string what;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    code = PLAIT_ERR_MEMORY;
    what = "threw: out of memory";
  } catch (const std::exception& e) {
    what = std::string("threw: ") + e.what();
  } catch (...) {
    what = "threw something that is not a std::exception";
  }
  const std::string plugin = at.plugin.empty() ? "" : "[plugin " + std::string(at.plugin) + "] ";
  return {code,
          plugin + text_of(at) + " " + what + "; no exception may leave a plugin: tell its author"};
}

plait_error* plugin_exception_to_c(const PluginCall& at) noexcept {
  try {
    return to_c(plugin_exception(at));
  } catch (...) {  // no memory for the text
    return current_c_error();
  }
}

void log_plugin_exception(const plait_host* host, const PluginCall& at) noexcept {
  if (!host) return;
  try {
    const Error e = plugin_exception(at);
    host->log(host, PLAIT_LOG_ERROR, e.text().data(), e.text().size());
  } catch (...) {
    // Out of memory: the line is lost.
  }
}

}  // namespace plait

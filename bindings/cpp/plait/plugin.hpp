// plait/plugin.hpp - writing plugins in C++20, header-only, over the C ABI.
//
// No exception leaves a plugin: every callback of an item is wrapped, and a plait::Error (or any
// other exception) becomes a plait_error. A complete layer plugin:
//
//   plait::Value build_scale(plait::Builder& b, const plait::Options& o,
//                            std::span<const plait::Value> in) {
//     return in[0] * o.real("by");
//   }
//   constexpr plait_option kScale[] = {plait::opt_real("by", "1.0", "factor")};
//   PLAIT_PLUGIN("acme-scale", "1.0.0", "Apache-2.0", "Scales its input") {
//     static const auto scale = plait::layer<build_scale>("scale", "y = by * x", kScale);
//     host.add(scale);
//   }
#pragma once

#include <plait/plugin.h>
#include <plait/plugin/build.hpp>
#include <plait/plugin/comm.hpp>
#include <plait/plugin/error.hpp>
#include <plait/plugin/format.hpp>
#include <plait/plugin/inner.hpp>
#include <plait/plugin/items.hpp>
#include <plait/plugin/kernel.hpp>
#include <plait/plugin/op.hpp>
#include <plait/plugin/options.hpp>
#include <plait/plugin/peft.hpp>
#include <plait/plugin/tokenizer.hpp>

// Defines the entry symbol, the table and the note. The braces that follow it add the items; in
// them, `host` is a plait::Host and `path` the absolute path of the plugin.
#define PLAIT_PLUGIN(plugin_name, plugin_version, plugin_license, plugin_summary)  \
  PLAIT_PLUGIN_NOTE(plugin_name, plugin_version);                                  \
  static void plait_plugin_open(const plait::Host& host, const char* path);        \
  extern "C" PLAIT_EXPORT const plait_plugin* plait_plugin_v1(uint32_t host_abi) { \
    static const plait_plugin table = {                                            \
        sizeof(plait_plugin),                                                      \
        PLAIT_ABI_VERSION,                                                         \
        0,                                                                         \
        plugin_name,                                                               \
        plugin_version,                                                            \
        plugin_license,                                                            \
        plugin_summary,                                                            \
        [](const plait_host* h, const char* path, void** state) -> plait_error* {  \
          return plait::detail::guard(plait::detail::maker(h), [&] {               \
            plait_plugin_open(plait::Host(h), path);                               \
            *state = nullptr;                                                      \
          });                                                                      \
        },                                                                         \
        [](void*) {}};                                                             \
    return host_abi >= PLAIT_ABI_VERSION ? &table : nullptr;                       \
  }                                                                                \
  static void plait_plugin_open([[maybe_unused]] const plait::Host& host,          \
                                [[maybe_unused]] const char* path)

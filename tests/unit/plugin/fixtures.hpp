// Plugins written as plain C tables, without a file, and small helpers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/plugin/registry.hpp"
#include "tests/unit/error_of.hpp"

namespace plait::plugin {

using test::error_of;

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A registry that keeps its log.
struct Bench {
  std::vector<std::string> lines;
  Log log{[this](uint32_t level, std::string_view text) {
            lines.push_back(std::to_string(level) + " " + std::string(text));
          },
          PLAIT_LOG_DEBUG};
  Registry registry;
  explicit Bench(Extensions extensions = {}, RegistrySettings settings = {})
      : registry(log, FileSystem::posix(), std::move(extensions), std::move(settings)) {}
};

inline plait_error* build_nothing(plait_builder*, const plait_options*, const plait_value*,
                                  uint32_t, plait_value*) {
  return nullptr;
}

inline plait_layer_item make_layer(const char* name) {
  return {sizeof(plait_layer_item), name, "a layer", nullptr, 0, 1, 1, 1, build_nothing};
}

// open() of a plugin whose name begins with the name of a test; `Open` is a function of the test.
using OpenFunction = plait_error* (*)(const plait_host*, const char*, void**);
inline plait_plugin make_plugin(const char* name, OpenFunction open) {
  return {sizeof(plait_plugin), PLAIT_ABI_VERSION, 0,    name,        "1.2.3",
          "Apache-2.0",         "a plugin",        open, [](void*) {}};
}

}  // namespace plait::plugin

// A plugin that is loaded and open.
#pragma once

#include <memory>
#include <string>

#include "engine/plugin/library.hpp"
#include "engine/plugin/registry.hpp"

namespace plait::plugin {

// Members are destroyed from the last to the first: the library, whose code the others refer to, goes last.
struct Registry::Plugin {
  Plugin(Registry& registry, Log& log, const Extensions& extensions,
         const plait_plugin* plugin_table, std::string real_path)
      : path(std::move(real_path)),
        table(plugin_table),
        host(registry, log, extensions, plugin_table->name) {}

  std::unique_ptr<Library> library;  // NULL: part of the program
  std::string path;
  const plait_plugin* table;
  void* state = nullptr;
  Host host;
};

}  // namespace plait::plugin

// A loaded and opened plugin.
#pragma once

#include <memory>
#include <string>

#include "engine/plugin/library.hpp"
#include "engine/plugin/registry.hpp"

namespace plait::plugin {

// Members are destroyed in reverse order: the library, whose code the others refer to, goes last.
struct Registry::Plugin {
  Plugin(Registry& registry, Log& log, const Extensions& extensions,
         const plait_plugin* plugin_table, std::string real_path)
      : path(std::move(real_path)),
        table(plugin_table),
        host(registry, log, extensions, plugin_table->name) {}

  std::unique_ptr<Library> library;  // NULL: linked into the program
  std::string path;
  const plait_plugin* table;
  void* state = nullptr;
  Host host;
};

}  // namespace plait::plugin
